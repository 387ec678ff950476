// People sign in through a real `weir gateway`, with an issuer of the test's own, in a real browser before a real
// cluster: `make test-page`.
import { AxeBuilder } from '@axe-core/playwright';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { start, until } from './cluster.js';
import { issue } from './issuer.js';

const executablePath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-headless-shell', '/usr/bin/google-chrome'].find(existsSync);
const weir = join(import.meta.dirname, '../../../bin/weir');
const spec = join(import.meta.dirname, 'operation.yaml');

let cluster, issuer, folder, gateway, browser, origin;
const hosts = new Set();

// free gives a port that was free a moment ago.
const free = () => new Promise((done) => {
  const server = net.createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    server.close(() => done(port));
  });
});

before(async () => {
  assert.ok(executablePath, 'no browser: apt-get install chromium, or set CHROMIUM to one');
  folder = await mkdtemp(join(tmpdir(), 'weir-gateway-'));
  cluster = await start({ replicas: 1, agents: 1 });
  issuer = await issue({ id: 'weir', secret: 'hush', people: { ann: { groups: ['ads-team'] }, bob: { groups: ['guests'] } } });
  const dir = dirname(cluster.credentials);
  await cluster.call('tls', 'issue', '--dir', dir, '--role', 'gateway', '--name', 'gw1');
  // Any certificate will do for browsers that do not check it.
  await cluster.call('tls', 'issue', '--dir', dir, '--role', 'agent', '--name', 'front');
  await cluster.call('group', 'add', 'ads-team');
  await cluster.call('pool', 'create', 'ads');
  await cluster.call('pool', 'acl', 'ads', '--allow', 'group:ads-team=use,read,manage');
  await cluster.call('op', 'start', '-f', spec, '--set', 'title=auction', '--set', 'pool=ads', '--set', 'tasks.main.job_count=2');
  await writeFile(join(folder, 'secret'), 'hush\n', { mode: 0o600 });
  const credentials = join(dir, 'gateway-gw1');
  const listen = `127.0.0.1:${await free()}`;
  origin = `https://${listen}`;
  gateway = spawn(weir, [
    'gateway', '--oidc', issuer.base, '--client-id', 'weir', '--client-secret-file', join(folder, 'secret'), '--url', origin, '--listen', listen,
    '--tls-cert', join(dir, 'agent-front/tls.crt'), '--tls-key', join(dir, 'agent-front/tls.key'), '--addresses', cluster.addresses.join(','), '--credentials', credentials,
  ], { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  for (const out of [gateway.stdout, gateway.stderr]) out.on('data', (d) => (said += d));
  browser = await chromium.launch({ executablePath, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
  const { page } = await visit();
  await until(`the gateway answers: ${said}`, async () => {
    assert.equal(gateway.exitCode, null, `weir gateway ended: ${said}`);
    return page.goto(origin).then(() => true, () => false);
  });
  await page.context().close();
}, { timeout: 300_000 });

after(async () => {
  await browser?.close();
  gateway?.kill('SIGTERM');
  await issuer?.close();
  await cluster?.stop();
  await rm(folder, { recursive: true, force: true });
});

// visit gives a person's browser, whose certificates are not checked.
async function visit() {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ignoreHTTPSErrors: true });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.on('request', (r) => hosts.add(new URL(r.url()).host));
  return { context, page };
}

// enter has a person sign in on the way to a view.
async function enter(person, hash) {
  const { context, page } = await visit();
  await page.goto(`${origin}/${hash}`);
  await page.waitForURL((url) => url.href.startsWith(issuer.base));
  await page.getByRole('link', { name: person }).click();
  await page.waitForURL((url) => url.href.startsWith(origin) && url.hash === hash);
  await page.getByText(`${person} · user`).waitFor({ state: 'attached' });
  return { context, page };
}

// asks makes a call by hand from the page, and gives the status and the answer.
const asks = (page, method, body) => page.evaluate(async ([path, json]) => {
  const answer = await fetch(path, { method: 'POST', headers: { 'Content-Type': 'application/json', 'Connect-Protocol-Version': '1' }, body: json });
  return { status: answer.status, body: await answer.json().catch(() => ({})) };
}, [`/weir.api.v1.${method}`, JSON.stringify(body)]);

test('a person signs in, comes back to the view, and may do what its group may', async () => {
  const { context, page } = await enter('ann', '#/operations?pool=ads');
  await page.getByRole('link', { name: 'auction' }).click();
  await page.locator('button:enabled', { hasText: 'Abort…' }).waitFor();
  const cookies = await context.cookies();
  const session = cookies.find((c) => c.name.startsWith('__Host-') && c.httpOnly && c.secure && c.sameSite === 'Lax' && c.path === '/');
  assert.ok(session, JSON.stringify(cookies));
  await context.close();
});

test('another person sees no button that it may press, and the server refuses the call made by hand', async () => {
  const { context, page } = await enter('bob', '#/operations');
  const operation = JSON.parse(await cluster.call('op', 'list', '-o', 'json')).operations[0].id;
  await page.goto(`${origin}/#/operation/${operation}`);
  // It sees that there is one, and not what.
  await page.getByText(/needs the right read/).first().waitFor();
  assert.equal(await page.getByText('auction').count(), 0);
  assert.equal(await page.locator('button:enabled', { hasText: 'Abort…' }).count(), 0);
  const refused = await asks(page, 'OperationService/Abort', { operation });
  assert.equal(refused.status, 403);
  assert.match(refused.body.message, /bob.*manage.*pool "ads"/);
  const stranger = await asks(page, 'ClusterService/Transfer', {});
  assert.ok(stranger.status >= 400, `a transfer of leadership: ${stranger.status}`);
  await context.close();
});

test('sign-out ends the session, also for who kept its cookie', async () => {
  const { context, page } = await enter('ann', '#/pools');
  const kept = await context.cookies();
  await page.getByRole('link', { name: 'Sign out' }).click();
  await page.waitForLoadState();
  await context.clearCookies();
  await context.addCookies(kept);
  const answer = await context.request.post(`${origin}/weir.api.v1.PoolService/List`, { headers: { 'Content-Type': 'application/json', Origin: origin }, data: '{}' });
  assert.equal(answer.status(), 401);
  await page.goto(`${origin}/#/pools`);
  await page.waitForURL((url) => url.href.startsWith(issuer.base));
  await context.close();
});

test('while the issuer is down, who is signed in goes on, and who is not is told', async () => {
  const { context, page } = await enter('ann', '#/pools');
  issuer.state.down = true;
  await page.reload();
  await page.locator('.pool .bars').first().waitFor();
  const other = await visit();
  await other.page.goto(`${origin}/login`);
  // What the issuer said of itself is known: it is the issuer that answers, or the gateway that says it does not.
  await other.page.getByText(/down|not answer|does not/i).first().waitFor();
  issuer.state.down = false;
  await other.context.close();
  await context.close();
});

test('pages of the gateway itself have nothing for axe to find', async () => {
  const { context, page } = await visit();
  const answer = await page.goto(`${origin}/callback?state=unknown&code=x`);
  assert.ok(answer.status() >= 400, `${answer.status()}`);
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    const { violations } = await new AxeBuilder({ page }).analyze();
    assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(' ')}`), [], colorScheme);
  }
  await page.getByRole('link').first().waitFor();
  await context.close();
});

test('browsers have asked nobody but the gateway and the issuer', () => {
  assert.deepEqual([...hosts].filter((h) => h !== new URL(origin).host && h !== new URL(issuer.base).host), []);
});
