// A browser with the page before a contended cluster of real processes, for the tests of the page.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { after, afterEach, before } from 'node:test';
import { chromium } from 'playwright-core';
import { contend, start } from './cluster.js';
import { serve } from './server.js';

const executablePath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-headless-shell', '/usr/bin/google-chrome'].find(existsSync);
export const pictures = process.env.WEIR_SCREENSHOTS;
export const patience = 30_000;

export let cluster, server, operators, browser, ids, kept;
// What pages have done that no page may.
export const breaches = [];

before(async () => {
  assert.ok(executablePath, 'no browser: apt-get install chromium, or set CHROMIUM to one');
  cluster = await start();
  // While there is room for their jobs.
  kept = await keep();
  ids = await contend(cluster);
  const { members: replicas } = JSON.parse(await cluster.call('cluster', 'members', '-o', 'json'));
  const members = Object.fromEntries(replicas.map((m) => [m.id, m.address]));
  server = await serve({ ...cluster, members, token: 'secret' });
  operators = await serve({ ...cluster, members, token: 'secret', role: 'operator' });
  browser = await chromium.launch({ executablePath, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
}, { timeout: 300_000 });

// keep runs a job of which files are kept, in a folder, and one without.
async function keep() {
  const folder = await mkdtemp(join(cluster.files, 'kept-'));
  await chmod(folder, 0o777);
  const run = async (title, paths) => {
    const id = (await cluster.call('op', 'start', '-f', join(import.meta.dirname, 'operation.yaml'), '--set', `title=${title}`,
      '--set', 'tasks.main.command="seq 100000 > long; mkdir sub; echo note > sub/note"', '--set', `tasks.main.output_paths=${JSON.stringify(paths)}`, '--wait')).trim().split('\n')[0];
    return JSON.parse(await cluster.call('job', 'list', id, '-o', 'json')).jobs[0].id;
  };
  const job = await run('keeps', ['long', 'sub'].map((path) => ({ path, destination: `${folder}/${path}` })));
  return { folder, job, none: await run('keeps none', []) };
}

after(async () => {
  await browser?.close();
  await server?.close();
  await operators?.close();
  await cluster?.stop();
});

// A test that fails leaves the others the cluster as it is.
afterEach(() => {
  server.state.fake.clear();
  server.state.lost = false;
});

// open gives a page that has signed in, at an address behind #; of a site that is not the test's own if one is given. What it must not do is noted.
export async function open(hash = '#/pools', options = {}) {
  const { script, site, from = site ?? server, ...context } = options;
  const page = await (await browser.newContext({ viewport: { width: 1360, height: 800 }, ...context })).newPage();
  page.setDefaultTimeout(patience);
  if (script) await page.addInitScript(script);
  page.on('request', (r) => r.url().startsWith(from.base) || r.url().startsWith('blob:') || breaches.push(`a request to ${r.url()}`));
  page.on('pageerror', (e) => breaches.push(`an error: ${e.message}`));
  page.on('dialog', (d) => (breaches.push(`a dialog: ${d.message()}`), d.dismiss()));
  page.on('console', (m) => /Content Security Policy/.test(m.text()) && breaches.push(m.text()));
  await page.goto(from.start);
  if (site) await page.waitForURL((url) => !url.hash.includes('token'));
  else await page.getByText(/ann · (user|operator)/).waitFor({ state: 'attached' });
  await page.goto(from.base + hash);
  return page;
}

export async function close(page) {
  await page.context().close();
}

export const views = () => ({
  pools: { hash: '#/pools', shows: '.pool .bars' },
  pool: { hash: '#/pools?pool=vision&span=10m', shows: 'section canvas' },
  operations: { hash: '#/operations', shows: '.operation a' },
  operation: { hash: `#/operation/${ids.nightly}`, shows: '.sentence' },
  nodes: { hash: '#/nodes/pg2', shows: 'section .figure' },
  services: { hash: `#/services?service=${ids.gate}`, shows: '.instance a' },
  instances: { hash: `#/operation/${ids.gate}?part=instances`, shows: '.instance a' },
  cluster: { hash: '#/cluster', shows: '.replica b' },
  job: { hash: '', shows: 'pre' },
  whatif: { hash: `#/whatif?set=${encodeURIComponent(JSON.stringify(tried))}`, shows: '.line .Weight input' },
});

// The changes of the picture of what-if.
export const tried = { batch: { weight: '3' }, prod: { 'strong_guarantee_resources/cpu': '2' }, language: { weight: '4' } };
