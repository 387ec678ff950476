// Tests of the page: jobs, their output and files.
import assert from 'node:assert/strict';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { close, ids, kept, open, server } from '../browser.js';
import { until } from '../cluster.js';
import { output } from '../messages.js';

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
