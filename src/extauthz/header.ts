/** Headers in Envoy's responses: `envoy.config.core.v3.HeaderValueOption`. */

import { varintSize, type WireWriter } from '../grpc/wire.ts'

/** Fields of OkHttpResponse; a DeniedHttpResponse has its response headers in the first one. */
const requestHeaders = 2
export const responseHeaders = 6

/** `HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD`: replaces a client's or a model's own header. */
const overwrite = 2

/** HeaderValueOption: header = 1 (key = 1, value = 2), append_action = 3. */
export function writeHeader(
  writer: WireWriter,
  name: string,
  value: string,
  field: number = requestHeaders,
): void {
  const lengthBytes = varintSize(name.length + value.length)
  const option = writer.open(field, lengthBytes)
  const header = writer.open(1, lengthBytes)
  writer.string(1, name).string(2, value).close(header, lengthBytes)
  writer.unsigned(3, overwrite).close(option, lengthBytes)
}
