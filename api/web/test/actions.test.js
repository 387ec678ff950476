// What the page may change, in a real browser, through real `weir ui` processes with and without --write, as people
// with different rights: `make test-page`. With WEIR_SCREENSHOTS=FOLDER it writes pictures of the questions there.
import { AxeBuilder } from '@axe-core/playwright';
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';
import { start, until } from './cluster.js';

const executablePath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-headless-shell', '/usr/bin/google-chrome'].find(existsSync);
const pictures = process.env.WEIR_SCREENSHOTS;
const weir = join(import.meta.dirname, '../../../bin/weir');
const spec = join(import.meta.dirname, 'operation.yaml');
const patience = 30_000;

let cluster, browser, ids;
// The pages: of ann, who owns operations; of ann without --write; of bob, who has a right on no operation of hers;
// of an operator.
const pages = {};
const processes = [];

function env(user) {
  const credentials = user === 'dev' ? cluster.credentials : join(dirname(cluster.credentials), `user-${user}`);
  return { ...process.env, WEIR_ADDRESSES: cluster.addresses.join(','), WEIR_CREDENTIALS: credentials };
}

const as = async (user, ...words) => (await promisify(execFile)(weir, words, { env: env(user) })).stdout;

async function begin(user, title, pool, count, ...more) {
  return (await as(user, 'op', 'start', '-f', spec, '--set', `title=${title}`, '--set', `pool=${pool}`, '--set', `tasks.main.job_count=${count}`, ...more)).trim();
}

const operation = async (id) => JSON.parse(await cluster.call('op', 'get', id, '-o', 'json'));
const running = (id, n) => until(`${n} jobs of ${id} run`, async () => Number((await operation(id)).progress?.running ?? 0) >= n, 90_000);

// ui starts weir ui, and answers the address that it prints.
async function ui(user, ...flags) {
  const child = spawn(weir, ['ui', ...flags], { env: env(user), stdio: ['ignore', 'pipe', 'pipe'] });
  processes.push(child);
  let said = '';
  child.stdout.on('data', (d) => (said += d));
  child.stderr.on('data', (d) => (said += d));
  return until('weir ui has printed its address', () => {
    assert.equal(child.exitCode, null, `weir ui ended: ${said}`);
    return /http:\S+#token=\S+(?=\n)/.exec(said)?.[0];
  });
}

before(async () => {
  assert.ok(executablePath, 'no browser: apt-get install chromium, or set CHROMIUM to one');
  cluster = await start();
  for (const user of ['ann', 'bob']) await cluster.call('tls', 'issue', '--dir', dirname(cluster.credentials), '--role', 'user', '--name', user);
  await cluster.call('pool', 'create', 'prod');
  await cluster.call('pool', 'create', 'lab');
  ids = { train: await begin('ann', 'train', 'prod', 3, '--set', 'tasks.main.interruption_signal=SIGTERM') };
  await running(ids.train, 3);
  for (const [name, user, ...flags] of [['ann', 'ann', '--write'], ['reader', 'ann'], ['bob', 'bob', '--write'], ['operator', 'dev', '--write']]) pages[name] = await ui(user, ...flags);
  browser = await chromium.launch({ executablePath, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
}, { timeout: 300_000 });

after(async () => {
  await browser?.close();
  for (const child of processes) child.kill('SIGTERM');
  await cluster?.stop();
});

// open gives the page of somebody at an address behind #.
async function open(who, hash, options = {}) {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options })).newPage();
  page.setDefaultTimeout(patience);
  page.on('pageerror', (e) => assert.fail(`${hash}: ${e.message}`));
  await page.goto(pages[who]);
  await page.locator('.who').waitFor({ state: 'attached' });
  await page.goto(new URL(hash, pages[who]).href);
  return page;
}

// fresh waits for five answers of a call, with which the rights, so many questions, are not asked for anew each time.
async function fresh(page, call, questions = 1) {
  const calls = [];
  page.on('request', (r) => calls.push(r.url().split('weir.api.v1.').pop()));
  const count = (name) => calls.filter((c) => c === name).length;
  await until('five answers', () => count(call) >= 5);
  const asked = count('AccessService/MayI');
  assert.ok(asked <= 2 * questions, `rights were asked for ${asked} times with ${count(call)} answers`);
}

const close = (page) => page.context().close();
const button = (page, name) => page.getByRole('button', { name, exact: true });

// ask presses a button that may be pressed, and answers the question that opens.
async function ask(page, name) {
  await button(page, name).click();
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  return dialog;
}

// Of these there are pictures.
const pictured = new Set(['abort-light', 'bulk-light', 'bulk-dark', 'bulk-phone']);

// look has axe look at a question in light, dark and at phone width, and takes its pictures.
async function look(page, name) {
  for (const [kind, size, colorScheme] of [['light', [1280, 800], 'light'], ['dark', [1280, 800], 'dark'], ['phone', [390, 800], 'light']]) {
    await page.setViewportSize({ width: size[0], height: size[1] });
    await page.emulateMedia({ colorScheme });
    // What is drawn follows the size of the window a moment later.
    await until(`${name}, ${kind}: the page is no wider than the screen`, () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), patience);
    for (const dialog of await page.locator('dialog').all()) assert.ok(await dialog.isVisible(), `${name}, ${kind}: the question is not seen`);
    const { violations } = await new AxeBuilder({ page }).withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']).analyze();
    assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).slice(0, 3).join(' ')}`), [], `${name}, ${kind}`);
    if (pictures && pictured.has(`${name}-${kind}`)) await page.screenshot({ path: join(pictures, `${name}-${kind}.png`) });
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.emulateMedia({ colorScheme: 'light' });
}

// lose has answers of a call get lost after the call has been made, the first time; answers how often it was made.
async function lose(page, call) {
  const made = { count: 0 };
  await page.route(`**/weir.api.v1.${call}`, async (route) => {
    const answer = await route.fetch();
    if (++made.count === 1) await route.abort('connectionreset');
    else await route.fulfill({ response: answer });
  });
  return made;
}

test('an operation is suspended, resumed and changed, and each asks first', async () => {
  const page = await open('ann', `#/operation/${ids.train}`);
  await fresh(page, 'OperationService/Get');
  let dialog = await ask(page, 'Suspend…');
  await page.keyboard.press('g');
  await page.keyboard.press('n');
  assert.match(await dialog.textContent(), /No job of ann starts.*3 jobs that run go on: no work is lost/s);
  await button(dialog, 'Leave it').click();
  assert.equal((await operation(ids.train)).suspended ?? false, false, 'it was suspended although it was left');
  dialog = await ask(page, 'Suspend…');
  await button(dialog, 'Suspend').click();
  await page.getByText('The operation is suspended.').waitFor();
  await page.locator('.badge', { hasText: 'suspended' }).waitFor();
  assert.equal((await operation(ids.train)).suspended, true);
  await button(await ask(page, 'Resume…'), 'Resume').click();
  await page.getByText('The operation is resumed.').waitFor();

  dialog = await ask(page, 'Change…');
  assert.ok(await button(dialog, 'Change').isDisabled(), 'there is nothing to change yet');
  await dialog.getByLabel('Weight').fill('heavy');
  await button(dialog, 'Change').click();
  assert.match(await dialog.getByRole('alert').textContent(), /weight/);
  await dialog.getByLabel('Weight').fill('2.5');
  await dialog.getByLabel('Most cores').fill('8');
  await look(page, 'change');
  await dialog.getByLabel('Pool').fill('lab');
  await button(dialog, 'Change').click();
  await page.getByText('The operation is changed.').waitFor();
  const [tree] = (await operation(ids.train)).trees;
  assert.deepEqual([tree.pool, tree.options.weight, tree.options.resource_limits.cpu], ['lab', 2.5, 8]);
  await button(await ask(page, 'Change…'), 'Leave it').click();
  await close(page);
});

test('a job is interrupted and aborted: its user and its work are named', async () => {
  const { jobs } = JSON.parse(await cluster.call('job', 'list', ids.train, '-o', 'json'));
  const [one, other] = jobs.filter((j) => j.state === 'running');
  const page = await open('ann', `#/job/${one.id}`);
  await fresh(page, 'JobService/Get');
  let dialog = await ask(page, 'Interrupt…');
  assert.match(await dialog.textContent(), /The job of ann is asked to leave.*It has run for \d+.*of cores/s);
  await dialog.getByLabel('Reason').fill('makes room');
  await button(dialog, 'Interrupt').click();
  await page.getByText('The job is asked to leave.').waitFor();
  const after = await until('it is interrupted', async () => {
    const job = JSON.parse(await cluster.call('job', 'get', one.id, '-o', 'json'));
    return job.interruption && job;
  });
  assert.match(after.interruption.message, /makes room/);

  await page.goto(new URL(`#/job/${other.id}`, pages.ann).href);
  await page.getByText(other.id).waitFor();
  dialog = await ask(page, 'Abort…');
  assert.match(await dialog.textContent(), /The job of ann is killed.*That work is lost. It runs again/s);
  await look(page, 'abort-job');
  await button(dialog, 'Abort').click();
  await until('it is aborted', async () => JSON.parse(await cluster.call('job', 'get', other.id, '-o', 'json')).state === 'aborted');
  await page.locator('.badge', { hasText: 'aborted' }).waitFor();
  await close(page);
});

test('what is lost is said before an operation is aborted, by interruption or at once', async () => {
  const id = await begin('ann', 'doomed', 'prod', 2, '--set', 'tasks.main.interruption_signal=SIGTERM');
  await running(id, 2);
  const page = await open('ann', `#/operation/${id}`);
  const dialog = await ask(page, 'Abort…');
  await dialog.getByText('They have run for').waitFor();
  assert.match(await dialog.textContent(), /2 jobs of ann run\. They have run for .* of cores\. That work is lost/s);
  await dialog.getByLabel('by interruption').check();
  await dialog.getByLabel('Seconds to leave').fill('5');
  assert.match(await dialog.textContent(), /What they do not save of that is lost/);
  await look(page, 'abort');
  // The answer is lost: the change is found made, and not made again.
  const made = await lose(page, 'OperationService/Abort');
  await button(dialog, 'Abort').click();
  await page.getByText('The operation is being aborted.').waitFor();
  assert.equal(made.count, 1, 'an abort that was made was asked for again');
  await until('it is aborted', async () => (await operation(id)).state === 'aborted');
  await page.locator('.badge', { hasText: 'aborted' }).waitFor();
  await close(page);
});

test('an operation is suspended with its jobs, and one that runs is completed', async () => {
  const id = await begin('ann', 'enough', 'prod', 2);
  await running(id, 2);
  const page = await open('ann', `#/operation/${id}`);
  let dialog = await ask(page, 'Suspend…');
  await dialog.getByLabel('abort the jobs that run').check();
  await dialog.getByText('They have run for').waitFor();
  await button(dialog, 'Suspend').click();
  await page.getByText('The operation is suspended.').waitFor();
  await until('its jobs are aborted', async () => Number((await operation(id)).progress.running ?? 0) === 0);
  await button(await ask(page, 'Resume…'), 'Resume').click();
  await running(id, 2);
  dialog = await ask(page, 'Complete…');
  await dialog.getByText('They have run for').waitFor();
  assert.match(await dialog.textContent(), /It ends as completed, with the 0 of 2 jobs that have completed\..*2 jobs of ann run\. .*That work is lost/s);
  await button(dialog, 'Complete').click();
  await until('it is completed', async () => (await operation(id)).state === 'completed');
  await page.locator('.badge', { hasText: 'completed' }).waitFor();
  await close(page);
});

test('failed jobs are retried once, also when the answer is lost', async () => {
  const id = await begin('ann', 'broken', 'prod', 3, '--set', 'tasks.main.command="exit 3"', '--set', 'max_failed_job_count=0');
  await until('it has failed', async () => (await operation(id)).state === 'failed', 60_000);
  const page = await open('ann', `#/operation/${id}`);
  const dialog = await ask(page, 'Retry…');
  const made = await lose(page, 'OperationService/Retry');
  await button(dialog, 'Retry').click();
  await page.getByText('run again.').or(page.getByText('runs again.')).first().waitFor();
  assert.equal(made.count, 2, 'it was not asked for again');
  const { operations } = JSON.parse(await cluster.call('op', 'list', '-o', 'json'));
  const retries = [];
  for (const { id: other } of operations) if ((await operation(other)).retry_of === id) retries.push(other);
  assert.equal(retries.length, 1, `${retries.length} retries`);
  await page.getByRole('link', { name: retries[0] }).click();
  await page.getByText('jobs of').waitFor();
  await page.goBack();
  await button(page, 'Retry…').waitFor();
  await fresh(page, 'OperationService/Get', 2);
  await close(page);
});

test('a node is drained with a reason, and has jobs again', async () => {
  const id = await begin('ann', 'steady', 'prod', 1);
  await running(id, 1);
  const { jobs: [{ node }] } = JSON.parse(await cluster.call('job', 'list', id, '-o', 'json'));
  const page = await open('operator', `#/nodes/${node}`);
  let dialog = await ask(page, 'Drain…');
  assert.match(await dialog.textContent(), /It gets no more jobs\..*jobs? of ann\. They have run for.*No work is lost/s);
  await dialog.getByLabel('jobs have time to leave').check();
  assert.match(await dialog.textContent(), /What they do not save is lost; they run again elsewhere/);
  assert.equal(await dialog.getByLabel('Minutes to leave').inputValue(), '10');
  await dialog.getByLabel('jobs there go on to their end').check();
  await dialog.getByLabel('Reason').fill('new disk');
  await dialog.getByLabel('Reason').press('Tab');
  await look(page, 'drain');
  await button(dialog, 'Drain').click();
  await page.getByText('The node is drained.').waitFor();
  await page.getByText(/Drained by dev .* ago: new disk/).waitFor();
  dialog = await ask(page, 'Undrain…');
  await button(dialog, 'Undrain').click();
  await page.getByText('The node may have jobs again.').waitFor();
  await page.getByText(/Drained by/).waitFor({ state: 'detached' });
  await close(page);
  assert.equal((await operation(id)).progress.running, '1', 'its job was ended');
  // Who is no operator is told so.
  const other = await open('ann', '#/nodes/pg1');
  await other.getByText('Only operators may drain nodes.').waitFor();
  assert.ok(await button(other, 'Drain…').isDisabled());
  await close(other);
});

test('bulk: chosen by key, frozen, shown, carried out one by one, with what failed', async () => {
  const some = [];
  for (let i = 0; i < 4; i++) some.push(await begin('ann', `sweep-${i}`, 'prod', 1));
  await running(some[0], 1);
  const page = await open('ann', '#/operations?filter=sweep-&state=in-progress');
  await until('four are shown', async () => (await page.locator('.row.operation:not(.header)').count()) === 4);
  // Latest first: three by keys, with Shift.
  await page.getByLabel('Choose sweep-3').focus();
  await page.keyboard.press('Space');
  await page.keyboard.press('Shift+ArrowDown');
  await page.keyboard.press('Shift+ArrowDown');
  await page.getByText('3 operations chosen').waitFor();
  // A box takes no letters, so that keys do there what they do elsewhere.
  await page.keyboard.press('/');
  assert.ok(await page.getByRole('searchbox').evaluate((e) => e === document.activeElement), 'the filter is not reached from a box');
  // A filter that shows two of them chooses no more than these.
  await page.getByLabel('Choose sweep-0').check();
  await page.getByText('4 operations chosen').waitFor();
  const dialog = await ask(page, 'Abort…');
  await dialog.getByRole('button', { name: 'Abort 4 operations' }).waitFor();
  // What is started now matches the filter and is not in the question; what has ended meanwhile fails alone.
  const late = await begin('ann', 'sweep-late', 'prod', 1);
  await page.locator('.row.operation', { hasText: 'sweep-late' }).waitFor({ state: 'attached' });
  await as('ann', 'op', 'abort', some[1]);
  await until('it has ended', async () => (await operation(some[1])).state === 'aborted');
  assert.equal(await dialog.locator('.row:not(.header)').count(), 4);
  await look(page, 'bulk');
  await dialog.getByRole('button', { name: 'Abort 4 operations' }).click();
  await dialog.getByText('4 of 4: 3 done, 1 failed.').waitFor();
  await dialog.locator('.row', { hasText: 'sweep-1' }).getByText(/already aborted|aborted/).waitFor();
  await look(page, 'bulk-done');
  await button(dialog, 'Close').click();
  for (const id of some) await until('it is aborted', async () => /^abort/.test((await operation(id)).state));
  assert.doesNotMatch((await operation(late)).state, /^abort/, 'an operation that was not shown was aborted');
  await close(page);
});

test('bulk: what a closed group hides is not chosen, and a range is of what is shown', async () => {
  const some = [];
  for (const [i, pool] of ['prod', 'lab', 'prod'].entries()) some.push(await begin('ann', `part-${i}`, pool, 1));
  const page = await open('ann', '#/operations?filter=part-&group=pool');
  await page.getByLabel('Choose all 3 that are shown').check();
  await page.getByText('3 operations chosen').waitFor();
  await page.getByRole('button', { name: 'lab 1 operation' }).click();
  await page.getByText('2 operations chosen').waitFor();
  await page.getByRole('button', { name: 'Choose none' }).click();
  await page.getByRole('button', { name: 'lab 1 operation' }).click();
  // Of pool lab the one, and of pool prod the latest.
  await page.getByLabel('Choose part-1').click();
  await page.getByLabel('Choose part-2').click({ modifiers: ['Shift'] });
  await page.getByText('2 operations chosen').waitFor();
  assert.ok(!await page.getByLabel('Choose part-0').isChecked());
  await close(page);
  for (const id of some) await as('ann', 'op', 'abort', id);
});

test('bulk: a filter that shows less chooses less, and what runs may be stopped half way', async () => {
  const some = [];
  for (let i = 0; i < 3; i++) some.push(await begin('ann', `grid-${i}`, 'prod', 1));
  const page = await open('ann', '#/operations?filter=grid-&state=in-progress');
  await page.getByLabel('Choose all 3 that are shown').check();
  await page.getByText('3 operations chosen').waitFor();
  await page.getByLabel('Filter by title, alias or id').fill('grid-0');
  await page.getByText('1 operation chosen').waitFor();
  await page.getByLabel('Filter by title, alias or id').fill('grid-');
  await until('all are shown again', async () => (await page.locator('.row.operation:not(.header)').count()) === 3);
  await page.getByText('1 operation chosen').waitFor();
  await page.getByLabel('Choose all 3 that are shown').check();
  const dialog = await ask(page, 'Suspend…');
  const held = [];
  await page.route('**/weir.api.v1.OperationService/Suspend', (route) => held.push(route));
  await dialog.getByRole('button', { name: 'Suspend 3 operations' }).click();
  await until('the first is under way', () => held.length === 1);
  await button(dialog, 'Stop after this one').click();
  await held[0].continue();
  await dialog.getByText('1 of 3: 1 done; stopped, 2 as they were.').waitFor();
  assert.equal(held.length, 1);
  await button(dialog, 'Close').click();
  // Those are still chosen.
  await page.getByText('2 operations chosen').waitFor();
  const suspended = await Promise.all(some.map(async (id) => (await operation(id)).suspended ?? false));
  assert.deepEqual(suspended, [false, false, true]);
  await close(page);
});

// byHand presses a button that is shown as one that may not be pressed, as somebody does who changes the page.
async function byHand(page, name) {
  assert.ok(await button(page, name).isDisabled(), `${name} may be pressed`);
  // At once: with its next answer the page shows it as before.
  await button(page, name).evaluate((b) => {
    b.disabled = false;
    b.click();
  });
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  return dialog;
}

test('without --write buttons say why not, and one pressed by hand is refused', async () => {
  const id = await begin('ann', 'kept', 'prod', 1);
  await running(id, 1);
  const page = await open('reader', `#/operation/${id}`);
  await page.getByText('This page only reads: weir ui --write opens one that may change things.').waitFor();
  await look(page, 'read-only');
  const dialog = await byHand(page, 'Abort…');
  await button(dialog, 'Abort').click();
  assert.match(await dialog.getByRole('alert').textContent(), /read-only.*--write/);
  await button(dialog, 'Leave it').click();
  assert.equal((await operation(id)).state, 'running');
  await page.goto(new URL('#/operations', pages.reader).href);
  await page.getByRole('link', { name: 'kept', exact: true }).waitFor();
  assert.equal(await page.getByRole('checkbox').count(), 0, 'rows can be chosen, with nothing to do with them');
  await page.goto(new URL('#/nodes/pg1', pages.reader).href);
  const drain = await byHand(page, 'Drain…');
  await button(drain, 'Drain').click();
  assert.match(await drain.getByRole('alert').textContent(), /read-only/);
  assert.equal(JSON.parse(await cluster.call('node', 'get', 'pg1', '-o', 'json')).drain ?? null, null);
  await close(page);
});

test('a user of few rights sees and may do exactly what the rights say', async () => {
  const secret = await begin('ann', 'secret', 'prod', 2);
  await running(secret, 2);
  const mine = await begin('bob', 'mine', 'prod', 1);
  await running(mine, 1);
  const { jobs } = JSON.parse(await cluster.call('job', 'list', secret, '-o', 'json'));
  const page = await open('bob', '#/operations?state=in-progress');
  const row = page.locator('.row.operation', { hasText: secret });
  await row.getByText('hidden').waitFor();
  assert.equal(await page.getByText('secret').count(), 0, 'the title of another is shown');
  // Of both, one may be suspended, and the question says why not the other.
  await page.getByLabel(`Choose ${secret}`).check();
  await page.getByLabel('Choose mine').check();
  let dialog = await ask(page, 'Suspend…');
  await dialog.getByText(/left out: user "bob" may not manage operation .* this needs the right manage on pool "prod"/).waitFor();
  await dialog.getByRole('button', { name: 'Suspend 1 operation' }).click();
  await dialog.getByText('1 of 1: 1 done.').waitFor();
  await button(dialog, 'Close').click();
  assert.deepEqual([(await operation(mine)).suspended, (await operation(secret)).suspended ?? false], [true, false]);

  await page.goto(new URL(`#/operation/${secret}`, pages.bob).href);
  await page.getByText(/Hidden from you: .*the right read on pool "prod"/).waitFor();
  await page.getByText(/may not manage operation .* this needs the right manage on pool "prod"/).waitFor();
  assert.equal(await page.locator('.note.bad').count(), 0, 'what is hidden is shown as an error');
  await look(page, 'hidden');
  dialog = await byHand(page, 'Abort…');
  await dialog.getByText('How long they have run is hidden from you.').waitFor();
  await button(dialog, 'Abort').click();
  assert.match(await dialog.getByRole('alert').textContent(), /may not abort operation .* of user "ann"/);
  await button(dialog, 'Leave it').click();
  assert.equal((await operation(secret)).state, 'running');

  await page.goto(new URL(`#/job/${jobs[0].id}`, pages.bob).href);
  await page.getByRole('heading', { name: 'A hidden job' }).waitFor();
  assert.equal(await page.locator('.note.bad').count(), 0, 'a hidden job is shown as an error');
  await page.goto(new URL(`#/nodes/${jobs[0].node}`, pages.bob).href);
  await page.getByText(/of others (is|are) hidden from you/).waitFor();
  await page.goto(new URL(`#/operation/${mine}`, pages.bob).href);
  await button(await ask(page, 'Resume…'), 'Resume').click();
  await page.getByText('The operation is resumed.').waitFor();
  await close(page);

  // With the right, the same page shows all and may do all.
  await cluster.call('pool', 'acl', 'prod', '--allow', 'user:bob=read,manage');
  const trusted = await open('bob', `#/operation/${secret}`);
  await trusted.getByRole('heading', { name: 'secret' }).waitFor();
  dialog = await ask(trusted, 'Abort…');
  await dialog.getByText('They have run for').waitFor();
  await button(dialog, 'Abort').click();
  await until('it is aborted', async () => /^abort/.test((await operation(secret)).state));
  await close(trusted);
});
