/**
 * Builds the image with a container engine, and runs the containers of both overlays with it. On a
 * machine that needs more flags: CONTAINER_ENGINE='podman --runtime /usr/sbin/runc',
 * CONTAINER_RUN_FLAGS='--ulimit nofile=16384:16384'.
 */

import root from 'tap'
import { buildImage, byEngine, noEngine, sizeOf } from '../../support/image/engine.ts'
import { overlays, podsOf } from '../../support/kubernetes/manifests.ts'
import { containerTests } from './containers.ts'

const [image = '', trial = ''] = ['production', 'trial'].map((overlay) => {
  const pods = podsOf(overlays[overlay as keyof typeof overlays])
  const gateway = pods.find(({ name }) => name.endsWith('/tollgate-gateway'))
  return gateway?.containers.find(({ name }) => name === 'tollgate')?.image
})

root.test('builds both targets', { skip: noEngine }, async (t) => {
  buildImage(image)
  buildImage(trial, 'trial')
  const base = sizeOf('docker.io/library/debian:bookworm-slim')
  const [own, withPostgres] = [sizeOf(image) - base, sizeOf(trial) - base]
  t.comment(`${own} bytes beside ${base} of the base; the trial's ${withPostgres}`)
  // The published base has 75 MB.
  t.ok(own < 275_000_000)
  t.ok(withPostgres - own > 40_000_000, 'only the target for trials has a Postgres')
})

containerTests(() => byEngine, noEngine)
