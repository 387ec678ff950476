// The page in a real browser, before a real cluster: `make test-page`. The tests of its views are in views, those of the
// page as a whole here. With WEIR_SCREENSHOTS=FOLDER it writes the pictures of docs/page.md there.
import { AxeBuilder } from '@axe-core/playwright';
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { breaches, browser, close, cluster, ids, open, patience, pictures, server, views } from './browser.js';
import { until } from './cluster.js';
import { knowsShares, pools } from './messages.js';
import './views/pools.js';
import './views/operations.js';
import './views/jobs.js';
import './views/lists.js';
import './views/cluster.js';

test('the token leaves the address, and the first view is painted', async () => {
  const page = await open();
  assert.equal(new URL(page.url()).hash, '#/pools');
  await page.locator('.pool .bars').first().waitFor();
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
  console.log(`first paint after ${Math.round(paint)} ms`);
  await close(page);
});

test('times are asked for in whole nanoseconds, whatever the fraction of a millisecond', async () => {
  // While views are shown the clock goes on by another fraction than before.
  const script = "const now = performance.now.bind(performance); performance.now = () => Math.floor(now()) + (document.querySelector('main > *') ? 0.3 : 0);";
  const page = await open('#/operations?failed=1h', { script });
  const asked = server.state.calls.length;
  await until('three answers', () => server.state.calls.slice(asked).filter((c) => c.endsWith('OperationService/List')).length >= 3);
  assert.equal(await page.getByText('Connection lost').count(), 0);
  await close(page);
});

test('filters that are typed quickly all count, and none once the view is left', async () => {
  const page = await open('#/operations');
  await page.locator('.operation a').first().waitFor();
  // type fills in fields at once, as a quick hand does, and goes on to an address.
  const type = (fields, hash) => page.evaluate(([fields, hash]) => {
    for (const [label, text] of Object.entries(fields)) {
      const field = document.querySelector(`input[aria-label="${label}"]`);
      field.value = text;
      field.dispatchEvent(new Event('input', { bubbles: true }));
    }
    if (hash) location.hash = hash;
  }, [fields, hash]);
  await type({ 'Filter by title, alias or id': 'e', Pool: 'prod' });
  await page.waitForURL(/filter=e&pool=prod/);
  await type({ Pool: 'research' }, '#/pools');
  await page.locator('.pool .bars').first().waitFor();
  const asked = server.state.calls.length;
  await until('an update', () => server.state.calls.slice(asked).some((c) => c.endsWith('PoolService/List')));
  assert.equal(new URL(page.url()).hash, '#/pools');
  await close(page);
});

test('that nothing matches is said of the filter of now alone', async () => {
  const page = await open('#/operations?type=map');
  const nothing = page.getByText('No operation matches these filters.');
  await nothing.waitFor();
  let answer;
  const held = new Promise((go) => (answer = go));
  await page.route('**/weir.api.v1.OperationService/List', async (route) => {
    await held;
    // Of some the page has given up by then.
    await route.continue().catch(() => {});
  });
  await page.getByLabel('Type', { exact: true }).selectOption('service');
  await nothing.waitFor({ state: 'detached' });
  answer();
  await page.getByRole('link', { name: 'gate', exact: true }).waitFor();
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
  for (const [key, view] of [['o', 'Operations'], ['s', 'Services'], ['n', 'Nodes'], ['c', 'Cluster'], ['p', 'Pools']]) {
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
