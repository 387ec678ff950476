// A contended cluster of real processes for tests of the page: three pools at the root, one with a
// guarantee, more demand than there is, an operation that waits, one that failed, a service, and a dead node.
import { execFile, spawn } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const weir = join(import.meta.dirname, '../../../bin/weir');
const run = promisify(execFile);

// until asks again until the answer is true, and says what it waited for when it never is.
export async function until(what, ask, milliseconds = 60_000) {
  const end = Date.now() + milliseconds;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`waited ${milliseconds} ms in vain: ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

// start starts a cluster of some replicas and agents. Nodes that are simulated are there when it answers.
export async function start({ replicas = 3, agents = 4, fleet = 0 } = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'weir-page-'));
  // Jobs have users of their own, which reach the files that operations may use.
  await chmod(folder, 0o711);
  const dir = join(folder, 'c');
  // All processes of the cluster end with this one.
  const up = spawn(weir, ['dev', 'up', '--dir', dir, '--replicas', `${replicas}`, '--agents', `${agents}`, '--node-prefix', 'pg', '--timeout', '2m'], { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  let ended = false;
  let page, nodes;
  for (const out of [up.stdout, up.stderr]) out.on('data', (d) => (said += d));
  up.on('exit', () => (ended = true));
  const ready = async () => {
    if (ended) throw new Error(`weir dev up ended: ${said}`);
    return said.includes('ready');
  };
  await until('the cluster is ready', ready, 180_000);

  if (fleet > 0) {
    nodes = spawn(weir, ['dev', 'fleet', `${fleet}`, '--dir', dir, '--user-slots', '2', '--job-time', '1m'], { stdio: ['ignore', 'pipe', 'inherit'] });
    let registered = '';
    nodes.stdout.on('data', (d) => (registered += d));
    await until('the simulated nodes run', () => registered.includes('simulated nodes run'), 300_000);
  }

  const access = JSON.parse(await readFile(join(dir, 'dev/cluster.json'), 'utf8')).access;
  const env = { ...process.env, WEIR_ADDRESSES: access.addresses.join(','), WEIR_CREDENTIALS: access.credentials };
  const call = async (...words) => (await run(weir, words, { env })).stdout;
  return {
    ...access,
    // The folder that operations may use.
    files: join(dir, 'files'),
    call,
    dev: async (...words) => (await run(weir, ['dev', ...words, '--dir', dir])).stdout,
    // ui runs weir ui, and answers its address, with the token.
    async ui() {
      page = spawn(weir, ['ui'], { env, stdio: ['ignore', 'pipe', 'ignore'] });
      let printed = '';
      page.stdout.on('data', (d) => (printed += d));
      await until('weir ui prints its address', () => printed.includes('\n'));
      return printed.trim();
    },
    async stop() {
      page?.kill('SIGTERM');
      nodes?.kill('SIGTERM');
      if (!ended) {
        const gone = new Promise((done) => up.on('exit', done));
        up.kill('SIGTERM');
        await gone;
      }
      await rm(folder, { recursive: true, force: true });
    },
  };
}

// contend gives the cluster pools and work, and answers the operations by title.
export async function contend(cluster) {
  const { call } = cluster;
  await call('tree', 'set', 'default', 'fair_share_starvation_timeout=5s');
  await call('pool', 'create', 'prod', 'weight=3', 'strong_guarantee_resources.cpu=6');
  await call('pool', 'create', 'research', 'weight=2');
  await call('pool', 'create', 'language', 'parent=research', 'max_running_operation_count=1');
  await call('pool', 'create', 'vision', 'parent=research', 'weight=2');
  await call('pool', 'create', 'batch', 'integral_guarantees.guarantee_type=relaxed', 'integral_guarantees.resource_flow.cpu=3');
  const spec = join(import.meta.dirname, 'operation.yaml');
  const ids = {};
  const op = async (title, pool, count, command, more = []) => {
    ids[title] = (await call('op', 'start', '-f', spec, '--set', `title=${JSON.stringify(title)}`, '--set', `pool=${pool}`,
      '--set', `tasks.main.job_count=${count}`, ...(command ? ['--set', `tasks.main.command=${JSON.stringify(command)}`] : []), ...more)).trim();
  };
  await op('train <b>large</b> <img src=x onerror=alert(1)>', 'vision', 40);
  await until('jobs of the first operation run', async () => (await call('op', 'get', Object.values(ids)[0], '-o', 'json')).includes('"running": "16"') , 90_000);
  await op('evaluate', 'language', 30);
  await op('compare', 'language', 10);
  await op('frontend', 'prod', 20);
  await op('broken', 'prod', 2, 'echo "no configuration" >&2; exit 3', ['--set', 'labels.team=ads', '--set', 'labels.tries=2']);
  await op('nightly', 'batch', 400, 'sleep 15');
  ids.gate = (await call('op', 'start', '-f', join(import.meta.dirname, 'service.yaml'))).trim();
  return ids;
}
