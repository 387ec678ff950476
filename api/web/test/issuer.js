// An OpenID Connect issuer for tests: a page with a link for each person, who is let in without a password.
import { createHash, createSign, generateKeyPairSync, randomUUID } from 'node:crypto';
import http from 'node:http';

// issue starts the issuer. people are the claims of persons by name. While state.down is true it answers nothing but
// errors, and tokens end after state.seconds.
export async function issue({ id, secret, people }) {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const state = { down: false, seconds: 3600 };
  const codes = new Map();
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const token = (claims) => {
    const signed = `${encode({ alg: 'RS256', typ: 'JWT', kid: 'k' })}.${encode(claims)}`;
    return `${signed}.${createSign('RSA-SHA256').update(signed).sign(privateKey, 'base64url')}`;
  };

  const server = http.createServer(async (request, response) => {
    const url = new URL(request.url, base);
    const asked = url.searchParams;
    const json = (status, value) => response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(value));
    if (state.down) return void response.writeHead(503).end('down');
    switch (url.pathname) {
      case '/.well-known/openid-configuration':
        return void json(200, {
          issuer: base, authorization_endpoint: `${base}/authorize`, token_endpoint: `${base}/token`, jwks_uri: `${base}/keys`,
          response_types_supported: ['code'], subject_types_supported: ['public'], id_token_signing_alg_values_supported: ['RS256'],
        });
      case '/keys':
        return void json(200, { keys: [{ ...publicKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', kid: 'k' }] });
      case '/authorize': {
        const links = Object.keys(people).map((name) => {
          const code = randomUUID();
          codes.set(code, { name, nonce: asked.get('nonce'), challenge: asked.get('code_challenge'), redirect: asked.get('redirect_uri') });
          return `<a href="${asked.get('redirect_uri')}?${new URLSearchParams({ state: asked.get('state'), code })}">${name}</a>`;
        });
        return void response.writeHead(200, { 'Content-Type': 'text/html' }).end(`<title>Who are you?</title>${links.join(' ')}`);
      }
      case '/token': {
        let text = '';
        for await (const part of request) text += part;
        const form = new URLSearchParams(text);
        const of = codes.get(form.get('code'));
        codes.delete(form.get('code'));
        const told = request.headers.authorization?.replace('Basic ', '');
        const trusted = told ? Buffer.from(told, 'base64').toString() === `${id}:${secret}` : form.get('client_id') === id && form.get('client_secret') === secret;
        const challenge = createHash('sha256').update(form.get('code_verifier') ?? '').digest('base64url');
        if (!trusted || !of || of.challenge !== challenge || of.redirect !== form.get('redirect_uri')) return void json(400, { error: 'invalid_grant' });
        const now = Math.floor(Date.now() / 1000);
        const claims = { iss: base, aud: id, sub: of.name, nonce: of.nonce, iat: now, exp: now + state.seconds, preferred_username: of.name, ...people[of.name] };
        return void json(200, { access_token: 'unused', token_type: 'Bearer', expires_in: 60, id_token: token(claims) });
      }
      default:
        response.writeHead(404).end();
    }
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const base = `http://127.0.0.1:${server.address().port}`;
  return { base, state, close: () => new Promise((done) => (server.close(done), server.closeAllConnections())) };
}
