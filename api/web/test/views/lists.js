// Tests of the page: long lists and what they show.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { browser, close, cluster, ids, open, server } from '../browser.js';
import { until } from '../cluster.js';
import { history, instances, nodes, operations, pools, services } from '../messages.js';

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
  // The page knows the cluster's time by whole seconds, and by its last tick.
  assert.ok(first > 400 && first <= 602, `${first} seconds are left`);
  await until('the countdown counts down', async () => (await left()) < first);
  await page.locator('section canvas').waitFor();
  await page.getByRole('link', { name: 'operation', exact: true }).click();
  await page.getByRole('button', { name: 'instances' }).click();
  await page.locator('.row.instance').filter({ hasText: 'draining' }).first().waitFor();
  await close(page);
});
