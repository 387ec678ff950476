// Tests of the page: operations and their list.
import { AxeBuilder } from '@axe-core/playwright';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { close, cluster, ids, open, server } from '../browser.js';
import { until } from '../cluster.js';
import { explanation, markup, operations, pools } from '../messages.js';

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
