/**
 * Envoy's configuration with the resolver and the authorities of a pod: the DNS server on this port
 * answers for names, and TLS trusts the certificates in this file.
 */
export function likeAPod(bootstrap: string, dnsPort: number, authorities: string): string {
  const parsed = JSON.parse(bootstrap)
  const [secret] = parsed.static_resources.secrets
  secret.validation_context.trusted_ca.filename = authorities
  const address = { socket_address: { address: '127.0.0.1', port_value: dnsPort, protocol: 'UDP' } }
  const type = 'type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3'
  parsed.typed_dns_resolver_config = {
    name: 'envoy.network.dns_resolver.cares',
    typed_config: { '@type': `${type}.CaresDnsResolverConfig`, resolvers: [address] },
  }
  return JSON.stringify(parsed)
}
