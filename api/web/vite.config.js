import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';
import { gzipSync } from 'node:zlib';
import { sourcesHash } from './sources.js';

// The most that the page may weigh, all files gzipped, in bytes. A test in Go holds it too.
const budget = 150_000;

// account prints what the page weighs, fails above the budget, and writes down which sources
// the files were built from.
function account() {
  return {
    name: 'account',
    enforce: 'post',
    generateBundle(_, bundle) {
      this.emitFile({ type: 'asset', fileName: 'sources.sha256', source: sourcesHash() + '\n' });
      let total = 0;
      for (const file of Object.values(bundle)) total += gzipSync(file.code ?? file.source).length;
      console.log(`the page: ${(total / 1000).toFixed(1)} kB gzipped, of ${budget / 1000} kB`);
      if (total > budget) this.error(`the page weighs ${total} bytes gzipped, of ${budget} at most`);
    },
  };
}

export default defineConfig({
  plugins: [svelte(), account()],
  base: './',
  build: {
    target: 'es2022',
    // A page under a strict content security policy has no data: URLs.
    assetsInlineLimit: 0,
    // A tenth smaller than what esbuild makes.
    minify: 'terser',
    terserOptions: { ecma: 2020, module: true, compress: { passes: 3 } },
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
