// The page in a real browser, through a real `weir ui`, over a cluster of 1,000 simulated nodes whose jobs come and go:
// `make test-page`. With WEIR_SCREENSHOTS=FOLDER it writes a picture of the nodes there.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { start, until } from './cluster.js';

const executablePath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-headless-shell', '/usr/bin/google-chrome'].find(existsSync);
const pictures = process.env.WEIR_SCREENSHOTS;
const spec = join(import.meta.dirname, 'operation.yaml');
const pools = ['ads', 'ml', 'web'];
// How many operations a pool has, each with so many jobs: more than the nodes have room for.
const [each, jobs] = [4, 2500];

let cluster, browser, page, ui;
const wrong = [];

before(async () => {
  assert.ok(executablePath, 'no browser: apt-get install chromium, or set CHROMIUM to one');
  cluster = await start({ replicas: 1, agents: 0, fleet: 1000 });
  for (const pool of pools) await cluster.call('pool', 'create', pool);
  for (let i = 1; i <= each; i++) {
    for (const pool of pools) {
      await cluster.call('op', 'start', '-f', spec, '--set', `title=work ${pool} ${i}`, '--set', `pool=${pool}`, '--set', `tasks.main.job_count=${jobs}`, '--set', `tasks.main.cpu_limit=${2 * i}`);
    }
  }
  ui = await cluster.ui();
  browser = await chromium.launch({ executablePath, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
  page = await (await browser.newContext({ viewport: { width: 1360, height: 800 }, colorScheme: 'dark' })).newPage();
  page.setDefaultTimeout(60_000);
  page.on('pageerror', (e) => wrong.push(e.message));
  page.on('console', (m) => m.type() === 'error' && wrong.push(m.text()));
  await page.goto(ui);
  await page.waitForURL((url) => !url.hash.includes('token'));
}, { timeout: 400_000 });

after(async () => {
  await browser?.close();
  await cluster?.stop();
});

// Each view with what it shows, and what changes in it while jobs come and go.
const views = {
  pools: ['.pool .bars', '.pool'],
  operations: ['.operation a', '.operation'],
  nodes: ['canvas[tabindex]', 'main'],
};

test('every view of 1,000 nodes is live, and an update costs little', async () => {
  await until('all nodes are busy', async () => Number(JSON.parse(await cluster.call('status', '-o', 'json')).jobs_running ?? 0) >= 1900, 120_000);
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('Performance.enable');
  const script = async () => (await cdp.send('Performance.getMetrics')).metrics.find((m) => m.name === 'ScriptDuration').value * 1000;
  let asked = 0;
  page.on('response', (r) => r.request().method() === 'POST' && asked++);
  for (const [view, [shows, live]] of Object.entries(views)) {
    await page.goto(`${new URL(page.url()).origin}/#/${view}`);
    await page.locator(shows).first().waitFor();
    const texts = async () => (await page.locator(live).allInnerTexts()).join('\n');
    const [calls, spent, said] = [asked, await script(), await texts()];
    await until(`what ${view} shows changes`, async () => (await texts()) !== said, 60_000);
    await until('more answers come', () => asked >= calls + 6, 60_000);
    console.log(`${view}: ${((await script() - spent) / (asked - calls)).toFixed(1)} ms of scripting an answer`);
  }
  await page.getByText('1,000 nodes').first().waitFor();
  if (pictures) await page.screenshot({ path: join(pictures, 'nodes-1000-dark.png') });
  assert.deepEqual(wrong, []);
});

test('from a cell to its node, and to why its jobs are there', async () => {
  await page.locator('canvas[tabindex]').focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  await page.waitForURL(/#\/nodes\/simulated-/);
  await page.locator('section .figure').first().waitFor();
  await page.locator('a[href*="#/job/"]').first().waitFor();
  assert.deepEqual(wrong, []);
});
