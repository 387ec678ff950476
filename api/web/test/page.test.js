// The page in a real browser, before a real cluster: `make test-page`. With WEIR_SCREENSHOTS=FOLDER it
// writes the pictures of docs/page.md there.
import { AxeBuilder } from '@axe-core/playwright';
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { contend, start, until } from './cluster.js';
import { explanation, history, instances, knowsShares, markup, nodes, operations, output, pools, services } from './messages.js';
import { serve } from './server.js';

const executablePath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-headless-shell', '/usr/bin/google-chrome'].find(existsSync);
const pictures = process.env.WEIR_SCREENSHOTS;
const patience = 30_000;

let cluster, server, operators, browser, ids, kept;
// What pages have done that no page may.
const breaches = [];

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
async function open(hash = '#/pools', options = {}) {
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

async function close(page) {
  await page.context().close();
}

const views = () => ({
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
const tried = { batch: { weight: '3' }, prod: { 'strong_guarantee_resources/cpu': '2' }, language: { weight: '4' } };

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
  // What an old link names may be gone.
  await page.goto(server.base + '#/pools?pool=gone');
  await page.getByText('There is no pool gone in tree default.').waitFor();
  await page.goto(server.base + '#/services?service=gone');
  await page.getByText('This service has ended').waitFor();
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

test('operations are called by their names on the page of a node, and in the texts of explanations', async () => {
  const page = await open('#/nodes/pg1');
  const titles = Object.keys(ids);
  await until('each job says of which operation it is', async () => {
    const names = await page.locator('section .job a[href*="#/operation/"]').allTextContents();
    return names.length > 0 && names.every((n) => titles.includes(n));
  });
  // For whom a job had to leave.
  await page.goto(`${server.base}#/operation/${Object.values(ids)[0]}?jobs=aborted`);
  await page.locator('.job').filter({ hasText: /operation [0-9a-f]{8} “\w+” of / }).first().waitFor();
  server.state.fake.set('/weir.api.v1.ExplainService/Explain', explanation(`1 job of operation ${ids.evaluate} is before it`));
  await page.goto(`${server.base}#/operation/${ids.compare}`);
  await page.locator('.sentence').filter({ hasText: `1 job of operation ${ids.evaluate.slice(-8)} “evaluate” of ` }).waitFor();
  server.state.fake.clear();
  await close(page);
});

test('the page keeps the latest output, also of a line without an end', async () => {
  const method = '/weir.api.v1.JobService/Output';
  const page = await open(`#/operation/${Object.values(ids)[0]}?jobs=running`);
  server.state.fake.set(method, output('.'.repeat(600_000)));
  await page.locator('.job a').first().click();
  await page.getByText('The page keeps the last 500,000 characters').waitFor();
  assert.equal((await page.locator('pre').textContent()).length, 500_000);
  server.state.fake.set(method, output('a line\n'.repeat(100_000)));
  await page.getByRole('button', { name: 'stderr' }).click();
  await page.locator('pre').filter({ hasText: 'a line' }).waitFor();
  const kept = await page.locator('pre').textContent();
  assert.ok(kept.startsWith('a line\n') && kept.length > 499_000, `${kept.length} characters, from ${kept.slice(0, 10)}`);
  server.state.fake.clear();
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

test('what failed in the last hour, and labels, are filters of the address', async () => {
  const script = () => new MutationObserver(() => (window.lost ||= /Connection lost/.test(document.body?.textContent))).observe(document, { subtree: true, childList: true, characterData: true });
  const page = await open('#/operations?failed=1h', { script });
  const titles = () => page.locator('.operation a:not(.badge)[title]').allTextContents();
  await until('what failed is shown alone', async () => (await titles()).join() === 'broken');
  const asked = server.state.calls.length;
  await until('three updates', async () => server.state.calls.slice(asked).filter((c) => c.endsWith('OperationService/List')).length >= 3);
  assert.ok(!(await page.evaluate(() => window.lost)), 'a question with a time was not asked');
  await page.getByLabel('Failed', { exact: true }).selectOption('failed or not');
  await until('all are shown', async () => (await titles()).length > 1);
  await page.getByRole('link', { name: 'team=ads' }).click();
  await until('the label holds', async () => (await titles()).join() === 'broken');
  assert.match(page.url(), /label=team%3Dads/);
  await page.getByLabel('Type', { exact: true }).selectOption('map');
  await page.getByText('No operation matches these filters.').waitFor();
  await page.goto(server.base + '#/operations?since=soon');
  await page.getByText('since=soon of the address is no time').waitFor();
  await close(page);
});

test('operations in groups of the address, which click and key close, and of which the rows in view alone are there', async () => {
  const page = await open('#/operations');
  const groups = page.locator('.group button');
  const told = async () => (await groups.allInnerTexts()).map((t) => t.replace(/\s+/g, ' ').slice(2)).join(', ');
  await page.getByLabel('Groups').selectOption('by pool');
  await page.waitForURL(/group=pool/);
  const { operations: all } = JSON.parse(await cluster.call('op', 'list', '-o', 'json'));
  const counts = {};
  for (const { pool } of all) counts[pool] = (counts[pool] ?? 0) + 1;
  const expected = Object.keys(counts).sort().map((p) => `${p} ${counts[p]} ${counts[p] === 1 ? 'operation' : 'operations'}`).join(', ');
  await until('each group has its name and count', async () => (await told()) === expected);
  const compare = page.getByRole('link', { name: 'compare', exact: true });
  const language = page.getByRole('button', { name: 'language' });
  await language.click();
  await compare.waitFor({ state: 'detached' });
  assert.equal(await language.getAttribute('aria-expanded'), 'false');
  assert.equal(await told(), expected, 'a closed group is no longer counted');
  await page.keyboard.press('Enter');
  await compare.waitFor();
  await page.keyboard.press('Space');
  await compare.waitFor({ state: 'detached' });
  const { violations } = await new AxeBuilder({ page }).withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']).analyze();
  assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).slice(0, 3).join(' ')}`), []);
  // A filter that is cleared leaves the groups.
  await page.goto(server.base + '#/operations?group=title&user=nobody');
  await page.getByRole('link', { name: 'clear filters' }).click();
  await until('a group for each title', async () => (await told()).includes('compare 1 operation, '));
  assert.match(page.url(), /operations\?group=title$/);

  server.state.fake.set('/weir.api.v1.OperationService/List', operations(100_000));
  await page.goto(server.base + '#/operations?group=user');
  await until('all are one group', async () => (await told()) === 'ann 100,000 operations');
  await page.getByText('100,000 operations, latest start first, in groups of this page alone').waitFor();
  assert.ok(await page.locator('.rows .row').count() < 100);
  await page.getByLabel('Groups').selectOption('by pool');
  await until('they are in forty', async () => (await told()).startsWith('pool-0 2,500 operations'));
  await groups.first().click();
  await until('the next group is in view', async () => (await told()).startsWith('pool-0 2,500 operations, pool-1 2,500 operations'));
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

test('the error of a failed operation and the stderr of its job', async () => {
  const page = await open('#/operations?state=failed');
  await page.getByRole('link', { name: 'broken', exact: true }).click();
  await until('the tab says which operation it is', async () => (await page.title()) === 'broken · Weir');
  await page.locator('.note.bad pre').filter({ hasText: 'no configuration' }).waitFor();
  // When its jobs ran, and how they ended.
  const times = page.getByRole('img', { name: /^jobs from \d\d:\d\d:\d\d to \d\d:\d\d:\d\d: 2 failed$/ });
  await times.waitFor();
  assert.match(await times.locator('path').getAttribute('d'), /^(M[\d.]+ [\d.]+H[\d.]+){2}$/);
  await page.locator('.job a').first().click();
  await page.getByText('memory at most 32 MiB').waitFor();
  assert.doesNotMatch(await page.locator('dl').innerText(), /^resources\s*;/m);
  await page.locator('pre').filter({ hasText: 'no configuration' }).waitFor();
  await close(page);
});

test('files that were kept of a job: their sizes, folders, and one that is saved', async () => {
  const { folder, job, none } = kept;
  const page = await open(`#/job/${job}`);
  const row = (name) => page.locator('.row.file').filter({ hasText: name });
  const asked = () => server.state.calls.filter((c) => c.endsWith('JobService/File')).length;
  const list = page.getByRole('button', { name: 'list', exact: true });
  await list.waitFor();
  assert.equal(asked(), 0, 'files are read before one asks for them');
  await list.click();
  await row('long').getByText('575 KiB').waitFor();
  await row('long').getByText(`→ ${folder}/long`).waitFor();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save long' }).click()]);
  assert.equal(download.suggestedFilename(), 'long');
  assert.equal(await readFile(await download.path(), 'utf8'), await readFile(join(folder, 'long'), 'utf8'));
  await page.getByRole('button', { name: 'Open sub' }).click();
  await row('note').getByText('5 B').waitFor();
  await page.getByRole('button', { name: 'Save note' }).waitFor();
  await page.getByRole('button', { name: 'back' }).click();
  await row('long').waitFor();
  // What is there no longer says so, and leaves the others.
  await rm(join(folder, 'sub'), { recursive: true });
  await page.reload();
  await list.click();
  await row('sub').getByText(/no such file/).waitFor();
  await row('long').getByText('575 KiB').waitFor();
  // Of a job that keeps none, nothing is said.
  await page.goto(`${server.base}#/job/${none}`);
  await page.locator('dl').waitFor();
  const before = server.state.calls.length;
  await until('two updates', () => server.state.calls.slice(before).filter((c) => c.endsWith('JobService/Get')).length >= 2);
  assert.equal(await page.getByText('Files kept').count(), 0);
  await close(page);
  await rm(folder, { recursive: true });
});

test('the curves of a pool over a span of one\'s choice, with what happened to it', async () => {
  await cluster.call('pool', 'set', 'vision', 'max_operation_count=49');
  const page = await open('#/pools?pool=vision&span=10m');
  await page.locator('section canvas').waitFor();
  const legend = page.locator('section .u-legend');
  await until('the latest share is in the legend', async () => /usage.*\d%.*fair share.*\d%/s.test(await legend.textContent()));
  // It had the cluster alone, and had to leave most of it to the others.
  assert.match(await page.getByRole('table', { name: 'Resources of vision' }).innerText(), /CPU[^]*Memory[^]*Slots/);
  await page.getByText(/[1-9]\d* jobs? had to make room/).waitFor();
  await page.getByText(/the last at .*changed by .*max_operation_count = 49/).waitFor();
  await page.getByRole('button', { name: '24h' }).click();
  await page.getByText('A point is the mean of 6m 0s, the band its least and greatest minute').waitFor();
  assert.match(page.url(), /span=24h/);
  await page.getByText(/[1-9]\d* jobs? had to make room/).waitFor();
  await close(page);
});

test('the last hour of a pool is in its row, unless the row has no room', async () => {
  const page = await open();
  const row = page.locator('.pool').filter({ has: page.getByRole('link', { name: 'vision', exact: true }) });
  await row.getByRole('img', { name: /usage in the last hour: .*[1-9].*%/ }).waitFor();
  assert.ok((await row.locator('svg path').first().getAttribute('d')).length > 10);
  // The opened pool takes the room.
  await row.getByRole('link').click();
  await page.locator('section canvas').waitFor();
  assert.equal(await page.locator('.pool svg').count(), 0);
  await close(page);
});

test('columns of one\'s choice, which the browser remembers', async () => {
  const page = await open();
  const headers = () => page.getByRole('columnheader').allInnerTexts().then((all) => all.map((h) => h.trim()));
  await page.locator('.pool .bars').first().waitFor();
  const usual = ['Pool', 'Last hour', 'Usage', 'Fair', 'Demand', 'Guarantee', 'Operations'];
  const named = async () => (await headers()).filter((h) => !/%/.test(h));
  assert.deepEqual(await named(), usual);
  await page.getByText('Columns', { exact: true }).click();
  const box = (name) => page.getByRole('checkbox', { name, exact: true });
  await box('Weight').check();
  await box('Demand').uncheck();
  const chosen = ['Pool', 'Last hour', 'Usage', 'Fair', 'Guarantee', 'Weight', 'Operations'];
  assert.deepEqual(await named(), chosen);
  // Each cell is below its header.
  const cells = page.locator('.pool').filter({ has: page.getByRole('link', { name: 'prod', exact: true }) }).getByRole('cell');
  assert.equal(await cells.count(), chosen.length + 1);
  assert.equal(await cells.nth(6).innerText(), '3');
  await page.keyboard.press('Escape');
  assert.ok(!await box('Weight').isVisible());
  await page.reload();
  await page.locator('.pool .bars').first().waitFor();
  assert.deepEqual(await named(), chosen);

  await page.goto(server.base + '#/operations');
  await page.locator('.operation a').first().waitFor();
  await page.getByText('Columns', { exact: true }).click();
  for (const name of ['Failed', 'Fair']) await box(name).check();
  await box('User').uncheck();
  await until('the headers follow', async () => (await headers()).join() === 'Operation,State,Jobs,Completed,Failed,Fair,Pool,Started,Took');
  const broken = page.locator('.operation').filter({ has: page.getByRole('link', { name: 'broken', exact: true }) }).getByRole('cell');
  assert.equal(await broken.count(), 9);
  await until('its failed jobs are counted', async () => /^[1-9]\d*$/.test(await broken.nth(4).innerText()));

  // So are those of services, of instances and of the jobs of a node.
  for (const [hash, shows, usual, on, off, chosen] of [
    ['#/services', '.service a', 'Service,Instances,Ready,Leaving,Pool,Usage,Fair', 'User', 'Pool', 'Service,Instances,Ready,Leaving,User,Usage,Fair'],
    [`#/operation/${ids.gate}?part=instances`, '.instance a', 'Instance,State,Node,Reached at,Time', 'Why', 'Node', 'Instance,State,Reached at,Time,Why'],
    ['#/nodes/pg1', 'section .job a', 'Job,State,Operation,Runs', 'User', 'State', 'Job,Operation,User,Runs'],
  ]) {
    await page.goto(server.base + hash);
    await page.locator(shows).first().waitFor();
    const list = page.locator('.rows');
    const shown = async () => (await list.getByRole('columnheader').allInnerTexts()).map((h) => h.trim()).filter((h) => !/%/.test(h)).join();
    assert.equal(await shown(), usual);
    await page.getByText('Columns', { exact: true }).click();
    await box(on).check();
    await box(off).uncheck();
    await until('the headers follow', async () => (await shown()) === chosen);
    const row = list.getByRole('row').nth(1);
    assert.equal(await row.getByRole('cell').count(), await list.getByRole('columnheader').count());
  }
  await close(page);

  // A browser that keeps nothing shows the usual ones, and changes them all the same.
  const script = "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } });";
  const other = await open('#/pools', { script });
  await other.locator('.pool .bars').first().waitFor();
  await other.getByText('Columns', { exact: true }).click();
  await other.getByRole('checkbox', { name: 'Demand', exact: true }).uncheck();
  await until('the column is gone', async () => (await other.getByRole('columnheader', { name: 'Demand', exact: true }).count()) === 0);
  await close(other);
});

test('what-if shows shares before and after a change, checks what is typed, and gives a file that can be applied', async () => {
  const page = await open('#/whatif');
  const line = (name) => page.locator('.line').filter({ has: page.getByRole('link', { name, exact: true }) });
  const cell = async (name, n) => parseFloat(await line(name).getByRole('cell').nth(n).textContent());
  const [now, then] = [5, 6];
  await line('research').waitFor();
  const before = await cell('research', now);
  assert.equal(await cell('research', then), before);
  const weight = page.getByRole('textbox', { name: 'Weight of research' });
  // A wrong text is marked, and not asked.
  const asked = server.state.calls.length;
  await weight.fill('much');
  assert.equal(await weight.getAttribute('aria-invalid'), 'true');
  assert.match(await weight.getAttribute('title'), /a number of at least 0/);
  assert.doesNotMatch(page.url(), /much/);
  await weight.fill('12');
  await until('a greater share', async () => (await cell('research', then)) > before + 1);
  assert.ok(server.state.calls.slice(asked).some((c) => c.endsWith('TreeService/WhatIf')));
  assert.match(page.url(), /set=.*research/);
  // The engine said the same to weir whatif.
  const told = JSON.parse(await cluster.call('whatif', '--set', 'research/weight=12', '-o', 'json'));
  const share = 100 * told.elements.find((e) => e.name === 'research').after.fair_share.cpu;
  assert.ok(Math.abs((await cell('research', then)) - share) < 0.2, `the page says ${await cell('research', then)}%, weir whatif ${share}%`);
  // By memory as by CPU; what the API refuses is told in its words.
  await page.getByRole('button', { name: 'memory' }).click();
  await page.getByRole('textbox', { name: 'Guarantee of language' }).fill('99999999999 TiB');
  await page.getByRole('alert').filter({ hasText: 'strong_guarantee_resources' }).waitFor();
  await page.getByRole('button', { name: /Undo language/ }).click();
  await page.getByRole('alert').waitFor({ state: 'detached' });

  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download file' }).click()]);
  assert.equal(download.suggestedFilename(), 'default.yaml');
  const plan = await cluster.call('pool', 'apply', '--dry-run', '-f', await download.path());
  assert.match(plan, /~ pool research\s+~ weight: 2 -> 12\s*$/);
  // What it says to type simulates days with the same change, in pools below pools too.
  await page.getByRole('textbox', { name: 'Weight of language' }).fill('3');
  const days = page.locator('code.days').filter({ hasText: 'language' });
  await days.waitFor();
  const typed = "weir simulate --live --tree default --duration 3d --control 'pools.research.weight=12' --control 'pools.research.pools.language.weight=3'";
  assert.equal(await days.textContent(), typed);
  const [, ...words] = typed.replaceAll("'", '').replace('3d', '1h').split(' ');
  const simulated = JSON.parse(await cluster.call(...words, '-o', 'json'));
  assert.ok(simulated.control.pools.research, 'both runs have the pools of the cluster');
  // Another address has other changes.
  await page.keyboard.press('Escape');
  await page.keyboard.press('g');
  await page.keyboard.press('w');
  await page.getByRole('button', { name: /Undo research/ }).waitFor({ state: 'detached' });
  await page.goBack();
  await page.getByRole('button', { name: /Undo research/ }).waitFor();
  // A link shows what its sender saw; a reset takes it back.
  await page.reload();
  await until('the change is there', async () => (await weight.inputValue()) === '12');
  await page.getByRole('button', { name: 'Reset' }).click();
  await until('the share of now', async () => (await cell('research', then)) === (await cell('research', now)));
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

test('1,000 pools, 10,000 nodes and long lists', async () => {
  const method = (name) => `/weir.api.v1.${name}`;
  server.state.fake.set(method('PoolService/List'), pools(1000));
  server.state.fake.set(method('PoolService/History'), history());
  server.state.fake.set(method('NodeService/List'), nodes(10_000));
  server.state.fake.set(method('OperationService/List'), operations(1000));
  server.state.fake.set(method('OperationService/Services'), services(200));
  server.state.fake.set(method('OperationService/Instances'), instances(10_000));
  const before = server.state.calls.length;
  // It may show pools on its way, and goes on to each view without being loaded again.
  const script = 'const now = performance.now.bind(performance); performance.now = () => window.frozen ?? now();';
  const page = await open('#/cluster', { script });
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('Performance.enable');
  const scripting = async () => (await cdp.send('Performance.getMetrics')).metrics.find((m) => m.name === 'ScriptDuration').value * 1000;
  for (const [view, service, shows] of [
    ['pools', 'PoolService/List', '.pool .bars'], ['operations', 'OperationService/List', '.operation a'], ['services', 'OperationService/Services', '.service a'],
    [`operation/${ids.gate}?part=instances`, 'OperationService/Instances', '.instance a'], ['nodes', 'NodeService/List', 'canvas[tabindex]'],
  ]) {
    await page.goto(`${server.base}#/${view}`);
    await page.locator(shows).first().waitFor();
    const count = () => server.state.calls.filter((c) => c === method(service)).length;
    const [asked, spent] = [await count(), await scripting()];
    await until('two updates', async () => count() >= asked + 2);
    console.log(`${view}: ${((await scripting() - spent) / 2).toFixed(1)} ms of scripting an update`);
    const rows = await page.locator('.rows .row').count();
    assert.ok(rows < 100, `${rows} rows are in the document`);
    if (view !== 'pools') continue;
    // The rows in view have their last hour, and no other is asked for, again neither.
    const curves = page.locator('.pool svg');
    await until('each row in view has its curve', async () => (await curves.locator('path:first-of-type:not([d=""])').count()) === (await curves.count()));
    const hours = () => server.state.calls.slice(before).filter((c) => c === method('PoolService/History')).length;
    assert.ok(hours() > 0 && hours() <= await curves.count(), `${hours()} hours are asked for, of ${await curves.count()} rows`);
    // Rows that are scrolled past, in no time, are not asked for: only those where it stops.
    const had = hours();
    await page.evaluate(() => (window.frozen = performance.now()));
    for (let y = 0; y <= 20_000; y += 500) await page.locator('.rows').evaluate((e, top) => e.scrollTo(0, top), y);
    assert.equal(hours(), had, 'rows that are scrolled past are asked for');
    await page.evaluate(() => delete window.frozen);
    await until('the rows there have their curves', async () => (await curves.locator('path:first-of-type:not([d=""])').count()) === (await curves.count()) && hours() > had);
    assert.ok(hours() - had <= await curves.count(), `${hours() - had} hours are asked for, of ${await curves.count()} rows`);
  }
  await page.getByText('10,000 nodes').first().waitFor();
  server.state.fake.clear();
  await close(page);
});

test('a service: its instances, one that has to leave, and until when', async () => {
  const leaving = await until('an instance is ready', async () => {
    const { instances } = JSON.parse(await cluster.call('op', 'instances', ids.gate, '-o', 'json'));
    return instances.find((i) => i.ready && i.node !== 'pg4');
  });
  const page = await open('#/services');
  const row = page.locator('.row.service').filter({ hasText: 'gate' });
  await row.getByRole('img', { name: /of 6 ready/ }).waitFor();
  // Operations whose jobs nobody can reach are no services.
  assert.deepEqual(await page.locator('.row.service a[title]').allTextContents(), ['gate']);
  await cluster.call('job', 'interrupt', leaving.job_id, '--timeout', '10m');
  await row.getByText(/^1 in \d+m/).waitFor();
  await row.getByRole('link', { name: 'gate' }).click();
  const instance = page.locator('.row.instance').filter({ hasText: leaving.job_id }).or(page.locator(`.row.instance:has(a[href$="${leaving.job_id}"])`));
  await instance.getByText('draining').waitFor();
  const left = async () => {
    const [, minutes, seconds] = /(\d+)m (\d+)s left/.exec(await instance.textContent()) ?? [];
    return minutes * 60 + Number(seconds);
  };
  const first = await until('a countdown', left);
  assert.ok(first > 400 && first <= 600, `${first} seconds are left`);
  await until('the countdown counts down', async () => (await left()) < first);
  await page.locator('section canvas').waitFor();
  await page.getByRole('link', { name: 'operation', exact: true }).click();
  await page.getByRole('button', { name: 'instances' }).click();
  await page.locator('.row.instance').filter({ hasText: 'draining' }).first().waitFor();
  await close(page);
});

test('the cluster: what each replica says of itself, and what to do about problems', async () => {
  const page = await open('#/cluster');
  await until('each replica has told of its log, disk and certificate', async () => {
    const rows = await page.locator('.row.replica:not(.header)').allTextContents();
    return rows.length === 3 && rows.every((r) => /up.*\d ms.*\d+d$/.test(r.trim()));
  });
  assert.equal(await page.locator('.badge.leads').count(), 1);
  assert.deepEqual(await page.locator('.tiles dt').allInnerTexts(), ['Leader', 'Nodes', 'Operations', 'Jobs', 'CPU', 'Memory', 'Slots']);
  // Whoever is no operator asks for nothing that operators alone may see.
  await page.getByText('are shown to operators').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Read the audit log' }).count(), 0);
  assert.ok(!server.state.calls.some((c) => /AuditService|Revocations/.test(c)), 'a user asked for what operators may see');
  const problem = page.locator('.problems details').filter({ hasText: 'running limit' });
  await problem.locator('summary').click();
  await problem.getByText('docs/pools.md').waitFor();
  await close(page);
});

test('who changed what, for operators: of all replicas, and older lines', async () => {
  const page = await open('#/cluster', { from: operators });
  await page.getByText('revoked', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Read the audit log' }).click();
  const line = page.locator('.row.line').filter({ hasText: 'PoolService/Edit' });
  await line.first().waitFor();
  await page.getByRole('searchbox', { name: 'Filter the audit log' }).fill('edit pool language');
  await until('the filter holds', async () => (await page.locator('.row.line:not(.header)').count()) === 1);
  assert.match(await line.textContent(), /operator.*pool language/);
  if (pictures) {
    await page.getByRole('searchbox', { name: 'Filter the audit log' }).fill('');
    await page.screenshot({ path: join(pictures, 'audit-light.png'), fullPage: true });
  }
  const { violations } = await new AxeBuilder({ page }).withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']).analyze();
  assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).slice(0, 3).join(' ')}`), []);
  // A reading is no change, but a line for the next one.
  await page.getByRole('searchbox', { name: 'Filter the audit log' }).fill('AuditService/Read');
  await page.getByText('No line like this').waitFor();
  await page.getByRole('combobox', { name: 'Kind' }).selectOption('all');
  await page.getByRole('button', { name: 'Read again' }).click();
  await page.locator('.row.line').filter({ hasText: 'AuditService/Read' }).first().waitFor();
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

test('a replica that is down is one problem of the cluster, and the others are asked', async () => {
  const page = await open('#/cluster');
  const said = await cluster.dev('kill', 'leader');
  await page.locator('.problems summary').filter({ hasText: /replica r\d at .* is down/ }).waitFor();
  await until('the others have answered', async () => {
    const rows = await page.locator('.row.replica:not(.header)').allTextContents();
    return rows.filter((r) => /down/.test(r)).length === 1 && rows.filter((r) => /up.*\d ms/.test(r)).length === 2;
  });
  await cluster.dev('start', /r\d+/.exec(said)[0]);
  await close(page);
});

test('no page asked another host, broke the policy or failed', () => {
  assert.deepEqual(breaches, []);
});
