/** The yardsticks' common part: they answer every Check with the same allow, and do nothing else. */

import { WireWriter } from '../../src/grpc/wire.ts'

export const checkPath = '/envoy.service.auth.v3.Authorization/Check'

/**
 * CheckResponse: status = 1, ok_response = 3. OkHttpResponse: headers = 2 (a HeaderValueOption, whose
 * header = 1 has key = 1 and value = 2), headers_to_remove = 5.
 */
export const allowed: Buffer = new WireWriter()
  .message(1, () => {})
  .message(3, (ok) => {
    ok.message(2, (option) => {
      option.message(1, (header) => {
        header.string(1, 'x-maas-subscription').string(2, 'models-as-a-service/bench')
      })
    }).string(5, 'authorization')
  })
  .finish()

/** The first argument, `host:port`. The process ends with its parent. */
export function readAddress(): string {
  for (const event of ['disconnect', 'SIGTERM']) process.once(event, () => process.exit(0))
  return process.argv[2] ?? '127.0.0.1:8082'
}
