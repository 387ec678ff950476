// A change that is asked for once and made once, also when its answer is lost.

import { Code, ConnectError } from '@connectrpc/connect';

export type Options = { signal: AbortSignal; timeoutMs: number };

export interface Change<T> {
  // send asks for the change. Sent again it must not make it twice.
  send: (options: Options) => Promise<T>;
  // settled reports whether the change is made. It is asked before the change is sent again.
  settled?: (options: Options) => Promise<boolean>;
}

// A try that has no answer by then counts as lost, and a change after so long as unknown.
const patience = 10_000;
const outage = 40_000;

// unanswered says that an error came from the way to the cluster: the change may have been made.
function unanswered(error: ConnectError): boolean {
  switch (error.code) {
    case Code.Unavailable:
    case Code.DeadlineExceeded:
    case Code.Canceled:
      return true;
    case Code.ResourceExhausted:
      return error.metadata.has('Weir-Retry-Millis');
    case Code.Unknown:
    case Code.Internal:
    case Code.Aborted:
      // A replica that refuses says so by a code of its own.
      return !error.metadata.has('Weir-Code');
  }
  return false;
}

// make makes a change and returns its answer; nothing if the answer was lost and the change was found made.
// waits is told why there is no answer yet. A refusal, and a change in doubt, is a ConnectError.
export async function make<T>(change: Change<T>, signal: AbortSignal, waits: (why: string) => void): Promise<T | undefined> {
  const began = performance.now();
  const options = { signal, timeoutMs: patience };
  let unsure = false;
  for (let pause = 250; ; pause = Math.min(2 * pause, 2000)) {
    try {
      if (unsure && (await change.settled?.(options))) return undefined;
      return await change.send(options);
    } catch (cause) {
      const error = ConnectError.from(cause);
      if (signal.aborted) throw new ConnectError('It was left before an answer came: it may have been made.', Code.Canceled);
      if (!unanswered(error)) throw error;
      if (performance.now() - began > outage) throw new ConnectError(`It may have been made: look before you ask again. ${error.rawMessage}`, error.code);
      unsure = true;
      waits(error.rawMessage);
      await new Promise((done) => setTimeout(done, pause));
    }
  }
}
