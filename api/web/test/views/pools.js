// Tests of the page: pools, their curves, and what-if.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { close, cluster, open, server } from '../browser.js';
import { until } from '../cluster.js';
import { pools } from '../messages.js';

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
