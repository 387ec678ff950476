// Who looks, and how calls are signed. `weir ui` passes a one-time token in the fragment of the
// address; it is kept for this tab alone. Through a gateway there is a cookie instead.

import { Code, ConnectError, createClient, type Interceptor } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-web';
import { AuditService } from '../gen/apipb/events_pb';
import { ExplainService } from '../gen/apipb/explain_pb';
import { AccessService, ClusterService, JobService, NodeService, OperationService, PoolService, TreeService } from '../gen/apipb/api_pb';
import { clock } from './clock.svelte';

export interface Session {
  name: string;
  role: string;
  groups: string[] | null;
  write: boolean;
  signOut: string;
  version: string;
}

const key = 'weir-token';

function takeToken(): string {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(key, found[1]!);
    history.replaceState(null, '', location.pathname + location.search);
  }
  return sessionStorage.getItem(key) ?? '';
}

const token = takeToken();

function headers(): Record<string, string> {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

class State {
  who = $state.raw<Session>();
  // Not empty: nobody is signed in, and why that is.
  ended = $state('');

  end() {
    if (token) {
      this.ended = 'This page has no valid token. Run weir ui again and open the address that it prints.';
    } else {
      // The gateway signs people in, and leads back to where they were.
      this.ended = 'You are signed out.';
      location.assign('login?to=' + encodeURIComponent(location.pathname + location.hash));
    }
  }

  async open(): Promise<void> {
    const answer = await fetch('session', { headers: headers(), cache: 'no-store', signal: AbortSignal.timeout(5000) });
    clock.heard(answer.headers.get('Date'));
    if (answer.status === 401) return this.end();
    if (!answer.ok) throw new ConnectError(`the session could not be read: HTTP ${answer.status}`, Code.Unavailable);
    this.who = (await answer.json()) as Session;
  }
}

export const session = new State();

const sign: Interceptor = (next) => async (request) => {
  for (const [name, value] of Object.entries(headers())) request.header.set(name, value);
  try {
    const answer = await next(request);
    clock.heard(answer.header.get('Date'));
    return answer;
  } catch (cause) {
    if (ConnectError.from(cause).code === Code.Unauthenticated) session.end();
    throw cause;
  }
};

const transport = createConnectTransport({
  baseUrl: new URL('.', location.href).href.replace(/\/$/, ''),
  useBinaryFormat: true,
  interceptors: [sign],
});

export const api = {
  access: createClient(AccessService, transport),
  audit: createClient(AuditService, transport),
  cluster: createClient(ClusterService, transport),
  explain: createClient(ExplainService, transport),
  jobs: createClient(JobService, transport),
  nodes: createClient(NodeService, transport),
  operations: createClient(OperationService, transport),
  pools: createClient(PoolService, transport),
  trees: createClient(TreeService, transport),
};
