// Changes of pools that are tried out: what people type, and what the API takes.

import type { JsonObject, JsonValue } from '@bufbuild/protobuf';
import type { ShareVector, WhatIfShare } from '../gen/apipb/api_pb';

// Texts by pool, and then by the path of an option. An empty text gives an option its default back.
export type Edits = Record<string, Record<string, string>>;

export interface Resource {
  name: string;
  title: string;
  // The field of messages.
  field: 'cpu' | 'memory' | 'gpu' | 'userSlots' | 'network';
  unit: string;
}

export const resources: Resource[] = [
  { name: 'cpu', title: 'CPU', field: 'cpu', unit: 'cores' },
  { name: 'memory', title: 'memory', field: 'memory', unit: 'such as 64GiB' },
  { name: 'gpu', title: 'GPU', field: 'gpu', unit: 'GPUs' },
  { name: 'user_slots', title: 'slots', field: 'userSlots', unit: 'slots' },
  { name: 'network', title: 'network', field: 'network', unit: '' },
];

export const of = (v: ShareVector | undefined, r: Resource) => v?.[r.field] ?? 0;

// What a pool has set at a path, as people write it; empty: nothing.
export function own(pool: WhatIfShare | undefined, path: string): string {
  let value: JsonValue | undefined = pool?.options;
  for (const name of path.split('/')) value = (value as JsonObject | undefined)?.[name];
  if (typeof value !== 'number') return '';
  return path.endsWith('/memory') ? size(value) : String(value);
}

const units = ['', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

// size writes a number of bytes in the largest unit that needs no fraction.
function size(value: number): string {
  let unit = 0;
  while (value && value % 1024 === 0 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return value + units[unit]!;
}

// fault says what is wrong with a text at a path; the API has the last word.
export function fault(path: string, text: string): string {
  if (!text) return '';
  if (path.endsWith('/memory')) return /^\d+(\.\d+)?\s*([KMGTP]i?B?|B)?$/i.test(text) ? '' : 'a size, such as 64GiB';
  const value = Number(text);
  if (Number.isNaN(value) || value < 0) return 'a number of at least 0';
  if (/\/(gpu|user_slots|network)$/.test(path) && !Number.isInteger(value)) return 'a whole number';
  return path === 'weight' && value > 1e9 ? 'at most 1000000000' : '';
}

// value is what the API takes for a text.
export function value(path: string, text: string): JsonValue {
  if (!text) return null;
  return path.endsWith('/memory') ? text.replace(/\s/g, '') : Number(text);
}

// simulation is the command that simulates the cluster for days as it is, and beside it with the changes. `above` says
// below which pool a pool is.
export function simulation(tree: string, edits: Edits, above: (pool: string) => string | undefined): string {
  const place = (pool: string): string[] => [...(above(pool) && above(pool) !== '<Root>' ? place(above(pool)!) : []), 'pools', pool];
  const plain = (name: string) => /^[\w-]+$/.test(name);
  const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
  const change = (pool: string, path: string, text: string): string => {
    const names = [...place(pool), ...path.split('/')];
    if (names.every(plain)) return `${names.join('.')}=${text}`;
    // Dots would end a name.
    return `pools=${JSON.stringify(names.slice(1).reduceRight<JsonValue>((below, name) => ({ [name]: below }), value(path, text)))}`;
  };
  const changes = Object.entries(edits).flatMap(([pool, options]) => Object.entries(options).map(([path, text]) => ` --control ${quoted(change(pool, path, text))}`));
  return `weir simulate --live --tree ${plain(tree) ? tree : quoted(tree)} --duration 3d${changes.join('')}`;
}

// read understands the changes in an address; what is no change is left out.
export function read(text: string): Edits {
  try {
    const out: Edits = {};
    for (const [pool, options] of Object.entries(JSON.parse(text || '{}') as Edits)) {
      for (const [path, to] of Object.entries(options)) if (typeof to === 'string') (out[pool] ??= {})[path] = to;
    }
    return out;
  } catch {
    return {};
  }
}
