// The page in a real browser, before a real cluster: `make test-page`. With WEIR_SCREENSHOTS=FOLDER it
// writes the pictures of docs/page.md there.
import { AxeBuilder } from '@axe-core/playwright';
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { contend, start, until } from './cluster.js';
import { knowsShares, markup, nodes, operations, pools } from './messages.js';
import { serve } from './server.js';

const executablePath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-headless-shell', '/usr/bin/google-chrome'].find(existsSync);
const pictures = process.env.WEIR_SCREENSHOTS;
const patience = 30_000;

let cluster, server, browser, ids;
// What pages have done that no page may.
const breaches = [];

before(async () => {
  assert.ok(executablePath, 'no browser: apt-get install chromium, or set CHROMIUM to one');
  cluster = await start();
  ids = await contend(cluster);
  server = await serve({ ...cluster, token: 'secret' });
  browser = await chromium.launch({ executablePath, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
}, { timeout: 300_000 });

after(async () => {
  await browser?.close();
  await server?.close();
  await cluster?.stop();
});

// open gives a page that has signed in, at an address behind #; of a site that is not the test's own if one is given. What it must not do is noted.
async function open(hash = '#/pools', options = {}) {
  const { script, site = server, ...context } = options;
  const page = await (await browser.newContext({ viewport: { width: 1360, height: 800 }, ...context })).newPage();
  page.setDefaultTimeout(patience);
  if (script) await page.addInitScript(script);
  page.on('request', (r) => r.url().startsWith(site.base) || r.url().startsWith('blob:') || breaches.push(`a request to ${r.url()}`));
  page.on('pageerror', (e) => breaches.push(`an error: ${e.message}`));
  page.on('dialog', (d) => (breaches.push(`a dialog: ${d.message()}`), d.dismiss()));
  page.on('console', (m) => /Content Security Policy/.test(m.text()) && breaches.push(m.text()));
  await page.goto(site.start);
  if (site === server) await page.getByText('ann · user').waitFor({ state: 'attached' });
  else await page.waitForURL((url) => !url.hash.includes('token'));
  await page.goto(site.base + hash);
  return page;
}

async function close(page) {
  await page.context().close();
}

const views = () => ({
  pools: { hash: '#/pools', shows: '.pool .bars' },
  pool: { hash: '#/pools?pool=vision&span=10m', shows: 'section canvas' },
  operations: { hash: '#/operations', shows: '.operation a' },
  operation: { hash: `#/operation/${ids.nightly}`, shows: '.sentence' },
  nodes: { hash: '#/nodes/pg2', shows: 'section .figure' },
  job: { hash: '', shows: 'pre' },
});

test('the token leaves the address, and the first view is painted', async () => {
  const page = await open();
  assert.equal(new URL(page.url()).hash, '#/pools');
  await page.locator('.pool .bars').first().waitFor();
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
  console.log(`first paint after ${Math.round(paint)} ms`);
  await close(page);
});

test('pools keep their order while shares change, and a filter keeps those above', async () => {
  const page = await open();
  const names = () => page.locator('.pool .name a').allTextContents();
  await until('all pools are shown', async () => (await names()).length === 6);
  const order = await names();
  assert.deepEqual(order, ['batch', 'default', 'prod', 'research', 'language', 'vision']);
  const asked = server.state.calls.length;
  await until('three updates', async () => server.state.calls.slice(asked).filter((c) => c.endsWith('PoolService/List')).length >= 3);
  assert.deepEqual(await names(), order);
  await page.keyboard.press('/');
  await page.keyboard.type('lang');
  await until('the filter holds', async () => (await names()).join() === 'research,language');
  assert.match(page.url(), /filter=lang/);
  await close(page);
});

test('why an operation waits is told in two clicks', async () => {
  const page = await open('#/pools');
  await page.getByRole('navigation').getByRole('link', { name: 'Operations' }).click();
  await page.getByRole('link', { name: 'compare', exact: true }).click();
  const sentence = page.locator('.sentence');
  await sentence.waitFor();
  assert.match(await sentence.textContent(), /language.*(1 of 1|runs|limit)/i);
  await close(page);
});

test('texts are never markup', async () => {
  server.state.fake.set('/weir.api.v1.PoolService/List', pools(3));
  const page = await open();
  await page.getByRole('link', { name: markup, exact: true }).waitFor();
  server.state.fake.clear();
  await page.goto(server.base + '#/operations');
  await page.getByRole('link', { name: /train <b>large<\/b>/ }).click();
  await page.getByRole('heading', { name: /<img src=x/ }).waitFor();
  await page.getByRole('button', { name: 'spec' }).click();
  await page.locator('pre').filter({ hasText: '<i>step</i>' }).waitFor();
  assert.equal(await page.locator('main img, main b:has-text("large"), pre i').count(), 0);
  await close(page);
});

test('output of a running job follows', async () => {
  const page = await open(`#/operation/${Object.values(ids)[0]}?jobs=running`);
  await page.locator('.job a').first().click();
  const output = page.locator('pre');
  await output.filter({ hasText: '<i>step</i>' }).waitFor();
  const lines = async () => (await output.textContent()).trim().split('\n');
  const had = await lines();
  await until('more lines', async () => (await lines()).length >= had.length + 2);
  const now = await lines();
  assert.deepEqual(now.slice(0, had.length), had);
  assert.equal(new Set(now).size, now.length, 'a line is shown twice');
  await close(page);
});

test('the error of a failed operation and the stderr of its job', async () => {
  const page = await open('#/operations?state=failed');
  await page.getByRole('link', { name: 'broken', exact: true }).click();
  await page.locator('.note.bad').first().waitFor();
  await page.locator('.job a').first().click();
  await page.getByRole('button', { name: 'stderr' }).click();
  await page.locator('pre').filter({ hasText: 'no configuration' }).waitFor();
  await close(page);
});

test('a lost connection is said, figures turn old, and the page catches up', async () => {
  const page = await open();
  await page.locator('.pool .bars').first().waitFor();
  server.state.lost = true;
  await page.getByText('Connection lost').waitFor();
  await page.locator('.split.stale').waitFor();
  server.state.lost = false;
  const began = performance.now();
  await page.getByText('Connection lost').waitFor({ state: 'detached' });
  await page.locator('.split:not(.stale)').waitFor();
  console.log(`live ${Math.round(performance.now() - began)} ms after the connection is back`);
  await close(page);
});

test('a hidden tab asks nothing', async () => {
  const hidden = await open('#/nodes');
  await hidden.locator('canvas[tabindex]').waitFor();
  await hidden.evaluate(() => {
    Object.defineProperty(document, 'hidden', { get: () => true });
    document.dispatchEvent(new Event('visibilitychange'));
  });
  const asked = server.state.calls.length;
  const other = await open('#/pools');
  const since = (method) => server.state.calls.slice(asked).filter((c) => c.endsWith(method)).length;
  await until('three updates of a visible tab', async () => since('PoolService/List') >= 3);
  // One question may have been under way.
  assert.ok(since('NodeService/List') <= 1, `a hidden tab asked ${since('NodeService/List')} times`);
  await close(hidden);
  await close(other);
});

test('keys go to views, and show help', async () => {
  const page = await open();
  await page.locator('.pool .bars').first().waitFor();
  for (const [key, view] of [['o', 'Operations'], ['n', 'Nodes'], ['p', 'Pools']]) {
    await page.keyboard.press('g');
    await page.keyboard.press(key);
    await page.getByRole('heading', { name: view, exact: true }).waitFor();
  }
  await page.keyboard.press('?');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await close(page);
});

test('a clock of the browser that is a day off changes no time', async () => {
  const script = 'const now = Date.now; Date.now = () => now() + 86400000;';
  const page = await open('#/operations', { script });
  await page.locator('.operation a').first().waitFor();
  const started = page.locator('.row.operation:not(.header) [title]').filter({ hasText: ' ago' }).first();
  assert.doesNotMatch(await started.textContent(), /\dd|^0s/);
  await close(page);
});

test('without a valid token nothing is shown, and the page says what to do', async () => {
  const page = await (await browser.newContext()).newPage();
  await page.goto(server.base + '#token=wrong');
  await page.getByText('Run weir ui again').waitFor();
  assert.equal(await page.locator('main > *').count(), 0);
  // With the session of a gateway the way leads to its sign-in.
  const other = await (await browser.newContext()).newPage();
  await other.goto(server.base + '#/nodes');
  await other.waitForURL((url) => url.pathname === '/login' && url.searchParams.get('to') === '/#/nodes', { timeout: patience });
  await close(page);
  await close(other);
});

test('1,000 pools, 10,000 nodes and long lists', async () => {
  const method = (name) => `/weir.api.v1.${name}/List`;
  server.state.fake.set(method('PoolService'), pools(1000));
  server.state.fake.set(method('NodeService'), nodes(10_000));
  server.state.fake.set(method('OperationService'), operations(1000));
  const page = await open();
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('Performance.enable');
  const script = async () => (await cdp.send('Performance.getMetrics')).metrics.find((m) => m.name === 'ScriptDuration').value * 1000;
  for (const [view, service, shows] of [['pools', 'PoolService', '.pool .bars'], ['operations', 'OperationService', '.operation a'], ['nodes', 'NodeService', 'canvas[tabindex]']]) {
    await page.goto(`${server.base}#/${view}`);
    await page.locator(shows).first().waitFor();
    const count = () => server.state.calls.filter((c) => c === method(service)).length;
    const [asked, spent] = [await count(), await script()];
    await until('two updates', async () => count() >= asked + 2);
    console.log(`${view}: ${((await script() - spent) / 2).toFixed(1)} ms of scripting an update`);
    const rows = await page.locator('.rows .row').count();
    assert.ok(rows < 100, `${rows} rows are in the document`);
  }
  await page.getByText('10,000 nodes').first().waitFor();
  server.state.fake.clear();
  await close(page);
});

test('every view in light, in dark and on a phone: nothing for axe to find', async () => {
  const running = await until('a job runs on a node that stays', async () => {
    const { jobs } = JSON.parse(await cluster.call('job', 'list', ids.frontend, '-o', 'json'));
    return jobs.find((j) => j.state === 'running' && j.node !== 'pg4');
  });
  await cluster.dev('kill', 'pg4');
  const looks = {
    light: { colorScheme: 'light' },
    dark: { colorScheme: 'dark' },
    phone: { colorScheme: 'light', viewport: { width: 390, height: 800 } },
  };
  for (const [look, options] of Object.entries(looks)) {
    const page = await open('#/pools', options);
    for (const [name, view] of Object.entries(views())) {
      await page.goto(server.base + (view.hash || `#/job/${running.id}`));
      await page.locator(view.shows).first().waitFor();
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${name}, ${look}: the page is ${wide} pixels wider than the screen`);
      const axe = new AxeBuilder({ page });
      // In the dark the colours alone are others.
      if (look === 'dark') axe.withRules(['color-contrast', 'link-in-text-block']);
      // And on a phone the layout.
      else if (look === 'phone') axe.withRules(['scrollable-region-focusable', 'target-size', 'meta-viewport']);
      else axe.withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']);
      const { violations } = await axe.analyze();
      assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).slice(0, 3).join(' ')}`), [], `${name}, ${look}`);
      if (pictures) await page.screenshot({ path: join(pictures, `${name}-${look}.png`) });
    }
    await close(page);
  }
});

// The page of weir ui itself. "Live" is when it shows an answer with shares to a question that it asked after
// the leader was killed.
test('a leader that is killed while the page is open, ten times', { timeout: 600_000 }, async () => {
  const start = await cluster.ui();
  const page = await open('#/pools', { site: { start, base: new URL(start).origin + '/' } });
  const pools = page.locator('.pool .bars');
  await pools.first().waitFor();
  const asked = new Map();
  let answers = 0;
  page.on('request', (r) => r.url().endsWith('PoolService/List') && asked.set(r, performance.now()));
  let killed = Infinity;
  let live;
  page.on('response', async (r) => {
    if (!asked.has(r.request()) || r.status() !== 200) return;
    const body = await r.body().catch(() => undefined);
    if (!body || !knowsShares(body)) return;
    answers++;
    if (asked.get(r.request()) > killed) live ??= performance.now() - killed;
  });
  const times = [];
  for (let kill = 0; kill < 10; kill++) {
    const had = answers;
    await until('an answer', () => answers > had);
    // At another moment between two questions each time.
    await page.waitForTimeout(200 * kill);
    live = undefined;
    const said = await cluster.dev('kill', 'leader');
    killed = performance.now();
    await until('live figures of a new leader', () => live);
    assert.equal(await page.locator('.split.stale').count(), 0, 'live figures are shown as old');
    assert.match(await page.locator('.pool').filter({ hasText: 'research' }).locator('.number').first().textContent(), /%/);
    const names = await page.locator('.pool .name a').allTextContents();
    assert.equal(new Set(names).size, names.length, 'a pool is shown twice');
    times.push(Math.round(live));
    killed = Infinity;
    await cluster.dev('start', /r\d+/.exec(said)[0]);
  }
  times.sort((a, b) => a - b);
  console.log(`live after the leader was killed, 10 times: median ${(times[4] + times[5]) / 2} ms, worst ${times[9]} ms`);
  await close(page);
});

test('no page asked another host, broke the policy or failed', () => {
  assert.deepEqual(breaches, []);
});
