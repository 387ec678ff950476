// What the caller may do here, so that no button is shown as if it could be pressed when it could not.
// The cluster decides again when it is pressed.

import type { MessageInitShape } from '@bufbuild/protobuf';
import type { MayIRequestSchema } from '../gen/apipb/api_pb';
import { live } from './live.svelte';
import { api, session } from './session.svelte';

// Rights change seldom.
const every = 10_000;

type Question = MessageInitShape<typeof MayIRequestSchema>;

// readOnly says why this page may change nothing; empty: it may.
export function readOnly(): string {
  if (session.who?.write) return '';
  return session.who?.signOut ? 'This page only reads: its gateway runs with --read-only.' : 'This page only reads: weir ui --write opens one that may change things.';
}

// Why is what keeps the caller from something; empty: nothing; undefined: not known yet.
export interface Right {
  readonly why: string | undefined;
}

// may asks for rights, all of which are needed, as long as the component that calls it is there.
export function may(ask: () => Question[] | undefined): Right {
  return said(() => {
    const questions = ask();
    return questions && (async (o) => (await Promise.all(questions.map((q) => api.access.mayI(q, o)))).find((a) => !a.allowed)?.reason ?? '');
  });
}

// operates asks whether the caller is an operator.
export function operates(what: string): Right {
  return said(() => async (o) => ((await api.access.whoAmI({}, o)).role === 'operator' ? '' : `Only operators may ${what}.`));
}

function said(ask: Parameters<typeof live<string>>[0]): Right {
  const right = live(() => (readOnly() ? undefined : ask()), every);
  return {
    get why() {
      return readOnly() || right.now?.error || right.now?.data;
    },
  };
}
