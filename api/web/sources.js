// sourcesHash names the sources of the page: SHA-256 over the lines "HASH  PATH", in the order
// of paths, of each file that the built files follow from. web_test.go computes the same.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

const here = import.meta.dirname;
const root = join(here, '../..');

export function sourcesHash() {
  const names = ['index.html', 'package-lock.json', 'package.json', 'buf.gen.yaml', 'svelte.config.js', 'tsconfig.json', 'vite.config.js'].map((n) => join(here, n));
  names.push(...below(join(here, 'src')), ...below(join(here, 'public')));
  for (const folder of ['apipb', 'eventpb', 'explainpb']) {
    names.push(...below(join(root, 'messages', folder)).filter((n) => n.endsWith('.proto')));
  }
  const lines = names
    .filter((n) => !n.startsWith(join(here, 'src/gen')))
    .map((n) => [relative(root, n), createHash('sha256').update(readFileSync(n)).digest('hex')])
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([path, hash]) => `${hash}  ${path}\n`);
  return createHash('sha256').update(lines.join('')).digest('hex');
}

function below(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((e) => e.isFile())
    .map((e) => join(e.parentPath, e.name));
}
