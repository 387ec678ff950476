// The page in a real browser, through a real `weir ui`, over a cluster of 1,000 simulated nodes whose jobs come and go:
// `make test-page`. With WEIR_SCREENSHOTS=FOLDER it writes a picture of the nodes there. WEIR_LIVE is the address that
// `weir ui` has printed for another such cluster, of WEIR_NODES nodes, to look at in its place.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { start, until } from './cluster.js';

const executablePath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-headless-shell', '/usr/bin/google-chrome'].find(existsSync);
const pictures = process.env.WEIR_SCREENSHOTS;
const spec = join(import.meta.dirname, 'operation.yaml');
const live = process.env.WEIR_LIVE;
const nodes = Number(process.env.WEIR_NODES ?? 1000);
const pools = ['ads', 'ml', 'web'];
// How many operations a pool has, each with so many jobs: more than the nodes have room for.
const [each, jobs] = [4, 2500];

let cluster, browser, page;
const wrong = [];

before(async () => {
  assert.ok(executablePath, 'no browser: apt-get install chromium, or set CHROMIUM to one');
  const ui = live ?? (await contended());
  browser = await chromium.launch({ executablePath, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
  page = await (await browser.newContext({ viewport: { width: 1360, height: 800 }, colorScheme: 'dark' })).newPage();
  page.setDefaultTimeout(60_000);
  page.on('pageerror', (e) => wrong.push(e.message));
  page.on('console', (m) => m.type() === 'error' && wrong.push(m.text()));
  await page.goto(ui);
  await page.waitForURL((url) => !url.hash.includes('token'));
}, { timeout: 400_000 });

// contended starts the cluster and its work, and answers the address of the page.
async function contended() {
  cluster = await start({ replicas: 1, agents: 0, fleet: nodes });
  for (const pool of pools) await cluster.call('pool', 'create', pool);
  for (let i = 1; i <= each; i++) {
    for (const pool of pools) {
      await cluster.call('op', 'start', '-f', spec, '--set', `title=work ${pool} ${i}`, '--set', `pool=${pool}`, '--set', `tasks.main.job_count=${jobs}`, '--set', `tasks.main.cpu_limit=${2 * i}`);
    }
  }
  await until('all nodes are busy', async () => Number(JSON.parse(await cluster.call('status', '-o', 'json')).jobs_running ?? 0) >= 1900, 120_000);
  return cluster.ui();
}

after(async () => {
  await browser?.close();
  await cluster?.stop();
});

// Each view with what it shows, and what changes in it while jobs come and go.
const views = {
  pools: ['.pool .bars', '.pool'],
  operations: ['.operation a', '.operation'],
  nodes: ['canvas[tabindex]', 'main'],
  operation: ['.sentence', '.tasks'],
  cluster: ['.tiles', '.tiles'],
};

// cells counts what is drawn on the map of nodes: squares with gaps between them, in rows.
const cells = () => page.locator('canvas[tabindex]').evaluate((canvas) => {
  const { width, height } = canvas;
  const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
  const drawn = (x, y) => data[4 * (y * width + x) + 3] > 0;
  const runs = (length, at) => {
    const found = [];
    for (let i = 0; i < length; i++) if (at(i) && !(i && at(i - 1))) found.push(i);
    return found;
  };
  // Just within the first cell, which is there if any is.
  const inside = 3;
  return runs(height, (y) => drawn(inside, y)).reduce((sum, y) => sum + runs(width, (x) => drawn(x, y + inside)).length, 0);
});

test('every view of very many nodes is live: each has a cell; what an update costs is printed', async () => {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('Performance.enable', { timeDomain: 'threadTicks' });
  await cdp.send('Network.enable');
  const script = async () => (await cdp.send('Performance.getMetrics')).metrics.find((m) => m.name === 'ScriptDuration').value * 1000;
  let [asked, received] = [0, 0];
  page.on('response', (r) => r.request().method() === 'POST' && asked++);
  cdp.on('Network.loadingFinished', (e) => (received += e.encodedDataLength));
  for (const [view, [shows, changes]] of Object.entries(views)) {
    if (view === 'operation') {
      await page.goto(`${new URL(page.url()).origin}/#/operations`);
      await page.locator('.operation a.cut').last().click();
    } else await page.goto(`${new URL(page.url()).origin}/#/${view}`);
    await page.locator(shows).first().waitFor();
    const texts = async () => (await page.locator(changes).allInnerTexts()).join('\n');
    const [calls, bytes, spent, since, said] = [asked, received, await script(), performance.now(), await texts()];
    await until(`what ${view} shows changes`, async () => (await texts()) !== said, 90_000);
    await until('more answers come', () => asked >= calls + 6, 60_000);
    // An update is what happens in two seconds.
    const updates = (performance.now() - since) / 2000;
    console.log(`${view}: ${((await script() - spent) / updates).toFixed(1)} ms of scripting and ${((received - bytes) / updates / 1024).toFixed(0)} KiB an update`);
    if (view === 'nodes') {
      await page.getByText(`${nodes.toLocaleString('en')} nodes`).first().waitFor();
      await until('a cell for each node', async () => (await cells()) === nodes);
    }
    if (pictures && (live || view === 'nodes')) await page.screenshot({ path: join(pictures, `${view}-${nodes}-dark.png`) });
  }
  assert.deepEqual(wrong, []);
});

test('from a cell to its node, to a job there, and to its operation and what that waits for', { skip: !!live }, async () => {
  await page.goto(`${new URL(page.url()).origin}/#/nodes`);
  await page.locator('canvas[tabindex]').focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  await page.waitForURL(/#\/nodes\/simulated-/);
  await page.locator('section .figure').first().waitFor();
  const node = decodeURIComponent(new URL(page.url()).hash.split('/')[2]);
  await page.locator('a[href*="#/job/"]').first().click();
  await page.getByRole('link', { name: node, exact: true }).waitFor();
  await page.locator('main a[href*="#/operation/"]').first().click();
  // All nodes are full, so each operation waits for room, and says so.
  await page.locator('.sentence').filter({ hasText: /wait|free|full|room/i }).waitFor();
  assert.deepEqual(wrong, []);
});
