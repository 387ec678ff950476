// The page as a gateway serves it, for tests: its built files under a strict policy, /session, and
// the API of a replica, called with a client's certificate. With state.lost it is a network that is cut.
import { createReadStream, existsSync, readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { extname, join, normalize } from 'node:path';

const dist = join(import.meta.dirname, '../dist');
const types = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.sha256': 'text/plain' };
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// serve starts the server: addresses of replicas, the folder of a client's certificate, and the
// bearer token that calls must have. state.fake answers calls in the cluster's place: messages by path. members are
// the addresses of replicas by id, for calls that name one, and role is that of who looks.
export async function serve({ addresses, credentials, token, members = {}, role = 'user' }) {
  const state = { lost: false, calls: [], fake: new Map() };
  const pem = (name) => readFileSync(join(credentials, name));
  const agent = new https.Agent({ keepAlive: true, ca: pem('ca.crt'), cert: pem('tls.crt'), key: pem('tls.key'), checkServerIdentity: () => undefined });

  const server = http.createServer((request, response) => {
    const path = new URL(request.url, 'http://page').pathname;
    response.setHeader('Content-Security-Policy', policy);
    if (state.lost) return void request.socket.destroy();
    if (path === '/session' || request.method === 'POST') {
      if (request.headers.authorization !== `Bearer ${token}`) {
        response.writeHead(401, { 'Content-Type': 'application/json' });
        return void response.end('{"code":"unauthenticated","message":"the token is not valid"}');
      }
    }
    if (path === '/session') {
      response.setHeader('Content-Type', 'application/json');
      return void response.end(JSON.stringify({ name: 'ann', role, groups: ['ml'], write: false, signOut: '', version: '0.1.0' }));
    }
    if (path === '/login') return void response.end('sign in');
    if (request.method === 'POST') return void forward(path, request, response);
    const file = join(dist, normalize(path === '/' ? 'index.html' : path));
    if (!file.startsWith(dist) || !existsSync(file)) return void response.writeHead(404).end();
    response.setHeader('Content-Type', types[extname(file)] ?? 'application/octet-stream');
    createReadStream(file).pipe(response);
  });

  // forward asks the replicas in turn until one answers.
  async function forward(path, request, response) {
    state.calls.push(path);
    const parts = [];
    for await (const part of request) parts.push(part);
    const body = Buffer.concat(parts);
    const fake = state.fake.get(path);
    if (fake) {
      response.writeHead(200, { 'Content-Type': 'application/proto' });
      return response.end(fake);
    }
    const named = request.headers['weir-replica'];
    for (const address of named ? [members[named] ?? 'unknown:1'] : addresses) {
      try {
        return await ask(address, path, request.headers, body, response);
      } catch (cause) {
        if (response.headersSent) return response.destroy();
      }
    }
    response.writeHead(503, { 'Content-Type': 'application/json' });
    response.end('{"code":"unavailable","message":"no replica answers"}');
  }

  function ask(address, path, headers, body, response) {
    const [host, port] = address.split(':');
    const kept = Object.fromEntries(Object.entries(headers).filter(([n]) => /^(content-type|connect-|accept)/.test(n)));
    return new Promise((done, failed) => {
      const call = https.request({ host, port, path, method: 'POST', agent, headers: { ...kept, 'content-length': body.length } }, (answer) => {
        if (answer.statusCode === 503) return void (answer.resume(), failed(new Error('unavailable')));
        response.writeHead(answer.statusCode, Object.fromEntries(Object.entries(answer.headers).filter(([n]) => !/^(transfer-encoding|connection)$/.test(n))));
        answer.pipe(response);
        answer.on('end', done);
        answer.on('error', failed);
      });
      // A replica that has just died must not hold a call up for longer than others take.
      call.setTimeout(1500, () => call.destroy(new Error('no answer')));
      call.on('error', failed);
      call.end(body);
    });
  }

  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const base = `http://127.0.0.1:${server.address().port}/`;
  return {
    base,
    start: `${base}#token=${token}`,
    state,
    close: () => new Promise((done) => (server.closeAllConnections(), agent.destroy(), server.close(done))),
  };
}
