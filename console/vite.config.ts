/**
 * `npm run console` builds the page into console/dist, which is committed: the service and its image
 * have no development packages. `npx vite console` serves it while it is being changed, with the API of
 * the gateway at TOLLGATE_URL.
 */

import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'
import { noncePlaceholder } from '../src/console/nonce.ts'

const gateway = (process.env.TOLLGATE_URL ?? 'http://127.0.0.1:8000').replace(/\/v1\/?$/, '')

// biome-ignore lint/style/noDefaultExport: Vite reads it
export default defineConfig({
  root: import.meta.dirname,
  base: '/console/',
  plugins: [react()],
  html: { cspNonce: noncePlaceholder },
  server: { proxy: { '/v1': gateway } },
  build: {
    target: 'es2022',
    // Scripts and styles come from files, which the page's policy requires.
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
  },
})
