// Large answers, made for tests: what the API would say of more pools and nodes than a test starts.
import { build } from 'esbuild';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const web = join(import.meta.dirname, '..');

// load compiles the generated messages for Node, with the runtime that they need.
async function load() {
  const folder = await mkdtemp(join(tmpdir(), 'weir-page-messages-'));
  const outfile = join(folder, 'messages.mjs');
  const contents = "export * from './src/gen/apipb/api_pb'; export { ExplainResponseSchema } from './src/gen/apipb/explain_pb'; export { create, fromBinary, toBinary } from '@bufbuild/protobuf'; export { timestampFromMs, timestampNow } from '@bufbuild/protobuf/wkt';";
  await build({ stdin: { contents, resolveDir: web, loader: 'ts' }, bundle: true, format: 'esm', platform: 'node', outfile, logLevel: 'error' });
  const messages = await import(pathToFileURL(outfile));
  await rm(folder, { recursive: true });
  return messages;
}

const m = await load();
const bytes = (schema, value) => Buffer.from(m.toBinary(schema, m.create(schema, value)));

// knowsShares reports whether an answer of PoolService/List has shares.
export const knowsShares = (answer) => m.fromBinary(m.ListPoolsResponseSchema, answer).pools.some((p) => p.fairShare !== undefined);

export const markup = '<img/src=x/onerror=alert(1)>';

// pools makes count pools in groups of ten, and one whose name is markup.
export function pools(count) {
  const all = [{ name: markup, parent: '<Root>', usageShare: 0.5, fairShare: 0.25, demandShare: 0.5, starvationStatus: 'non_starving', tree: 'default' }];
  for (let i = 0; i < count - 1; i++) {
    const group = Math.floor(i / 10);
    all.push({
      name: i % 10 ? `pool-${i}` : `group-${group}`, parent: i % 10 ? `group-${group}` : '<Root>', tree: 'default',
      usageShare: (i % 7) / 700, fairShare: (i % 5) / 500, demandShare: (i % 11) / 200, starvationStatus: i % 50 === 3 ? 'starving' : 'non_starving', belowSince: i % 50 === 3 ? m.timestampNow() : undefined,
    });
  }
  return bytes(m.ListPoolsResponseSchema, { tree: 'default', revision: 1n, pools: all });
}

// output is what a job has written, to its end.
export const output = (text) => bytes(m.JobOutputResponseSchema, { data: Buffer.from(text), nextOffset: BigInt(text.length), end: true });

// explanation says something of an operation.
export const explanation = (text) => bytes(m.ExplainResponseSchema, { explanations: [{ tree: 'default', text, facts: [{ text }] }] });

// history makes the last hour of a pool, a point a minute, with a gap of ten minutes.
export function history() {
  const begin = Math.floor(Date.now() / 60_000) - 59;
  const points = Array.from({ length: 60 }, (_, i) => ({
    time: m.timestampFromMs(60_000 * (begin + i)), usageShare: 0.1 + 0.05 * Math.sin(i / 5), fairShare: 0.12, usageShareMin: 0.05, usageShareMax: 0.15,
  }));
  return bytes(m.PoolHistoryResponseSchema, { stepSeconds: 60n, points: points.filter((_, i) => i < 20 || i >= 30) });
}

// nodes makes cells of count nodes, some of them offline or drained.
export function nodes(count) {
  const all = Array.from({ length: count }, (_, i) => i);
  return bytes(m.ListNodesResponseSchema, {
    sums: { nodes: BigInt(count) },
    cells: {
      version: 1n, names: all.map((i) => `node-${String(i).padStart(5, '0')}`),
      states: Uint8Array.from(all, (i) => (i % 97 ? (i % 53 === 1 ? 2 : 1) : 0)), parts: Uint8Array.from(all, (i) => (i * 7) % 101),
    },
  });
}

export function operations(count) {
  const all = [];
  for (let i = 0; i < count; i++) {
    all.push({
      id: `01a2240c-0000-7000-8000-${String(i).padStart(12, '0')}`, title: `operation ${i}`, state: 'running', pool: `pool-${i % 40}`, user: 'ann', startTime: m.timestampNow(),
      progress: { total: 100000n, completed: BigInt(i), running: 100n, pending: BigInt(99900 - i) },
    });
  }
  return bytes(m.ListOperationsResponseSchema, { operations: all, incomplete: true });
}

// services makes count services of 40 instances, of which some are leaving.
export function services(count) {
  const all = [];
  for (let i = 0; i < count; i++) {
    const draining = i % 7 === 1 ? 2 : 0;
    all.push({
      operation: { id: `01a2240c-0000-7000-8000-${String(i).padStart(12, '0')}`, title: `service ${i}`, state: 'running', pool: `pool-${i % 40}`, user: 'ann', usageShare: (i % 9) / 900, fairShare: (i % 5) / 500 },
      wanted: 40n, running: 38n, ready: BigInt(36 - draining), draining: BigInt(draining), leaving: draining ? [{ jobId: 'j', state: 'draining', deadline: m.timestampNow() }] : [],
    });
  }
  return bytes(m.ServicesResponseSchema, { services: all, incomplete: true });
}

// instances makes count instances of a service, of which some are leaving.
export function instances(count) {
  const all = [];
  for (let i = 0; i < count; i++) {
    const draining = i % 50 === 1;
    all.push({
      jobId: `01a2240d-0000-7000-8000-${String(i).padStart(12, '0')}`, task: 'serve', cookie: i, node: `node-${i % 500}`, host: `10.0.${(i >> 8) & 255}.${i & 255}`, ports: [21000 + (i % 100)],
      state: draining ? 'draining' : 'live', ready: !draining, reason: draining ? 'graceful_preemption' : '', deadline: draining ? m.timestampNow() : undefined, startTime: m.timestampNow(),
    });
  }
  return bytes(m.InstancesResponseSchema, { instances: all });
}
