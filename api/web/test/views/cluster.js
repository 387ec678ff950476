// Tests of the page: the cluster.
import { AxeBuilder } from '@axe-core/playwright';
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { close, cluster, open, operators, pictures, server } from '../browser.js';
import { until } from '../cluster.js';

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
