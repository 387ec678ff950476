// Live asks again and again while the tab is visible, and knows how old its answer is.

import { Code, ConnectError } from '@connectrpc/connect';
import { untrack } from 'svelte';
import { clock } from './clock.svelte';

// Between two questions, and after a failure, in milliseconds.
const every = 2000;
const again = 500;
// After so long without an answer its figures are shown as old.
const old = 6000;
// A question that has not been answered by then is given up. This is also how long older figures are shown
// in place of an answer that is not whole.
const patience = 5000;

// What failed is the way to the cluster, not the question.
const ways = new Set([Code.Unavailable, Code.Unknown, Code.DeadlineExceeded, Code.Aborted, Code.Internal, Code.Canceled, Code.ResourceExhausted]);

const all = new Set<Pick<Live<unknown>, 'broken' | 'answered' | 'born'>>();
class Connection {
  // The steady time since which nothing is answered; 0: all is well.
  lost = $state(0);
  why = $state('');
  // The time of the cluster of the oldest figures shown.
  update() {
    const bad = [...all].filter((l) => l.broken);
    const since = Math.min(...bad.map((l) => l.answered || l.born));
    this.lost = bad.length ? since : 0;
    this.why = bad[0]?.broken ?? '';
  }
}
export const connection = new Connection();

type Ask<T> = (options: { signal: AbortSignal; timeoutMs: number }) => Promise<T>;

export class Live<T> {
  data = $state.raw<T>();
  // What is wrong with the question, such as an operation that is not there.
  error = $state('');
  // Why the cluster is not reached; empty: it is.
  broken = $state('');
  answered = $state(0);
  born = performance.now();
  #ask: Ask<T>;
  #every: number;
  #whole: (answer: T) => boolean;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stop: AbortController | undefined;
  #ended = false;

  constructor(ask: Ask<T>, milliseconds = every, whole: (answer: T) => boolean = () => true) {
    this.#ask = ask;
    this.#every = milliseconds;
    this.#whole = whole;
    all.add(this);
    document.addEventListener('visibilitychange', this.#seen);
    void this.refresh();
  }

  // stale: what is shown is not what is.
  get stale(): boolean {
    return this.data !== undefined && (this.broken !== '' || clock.tick - this.answered > old + this.#every - every);
  }

  // refresh asks at once, in place of a question that is under way.
  refresh = async () => {
    clearTimeout(this.#timer);
    this.#stop?.abort();
    if (document.hidden || this.#ended) return;
    const stop = (this.#stop = new AbortController());
    const began = performance.now();
    let wait = this.#every;
    try {
      const answer = await this.#ask({ signal: stop.signal, timeoutMs: patience });
      if (stop.signal.aborted) return;
      this.error = this.broken = '';
      const now = performance.now();
      const whole = this.#whole(answer);
      if (whole || this.data === undefined || now - this.answered > patience) {
        this.data = answer;
        this.answered = now;
      }
      // A slow cluster is asked less often.
      wait = whole ? Math.max(wait, 2 * (now - began)) : again;
    } catch (cause) {
      if (stop.signal.aborted) return;
      const error = ConnectError.from(cause);
      if (error.code === Code.Unauthenticated) return this.end();
      if (ways.has(error.code)) {
        this.broken = error.rawMessage;
        wait = again;
      } else {
        this.error = error.rawMessage;
        this.broken = '';
      }
    }
    connection.update();
    this.#timer = setTimeout(this.refresh, wait);
  };

  end() {
    this.#ended = true;
    clearTimeout(this.#timer);
    this.#stop?.abort();
    document.removeEventListener('visibilitychange', this.#seen);
    all.delete(this);
    connection.update();
  }

  #seen = () => {
    if (document.hidden) {
      clearTimeout(this.#timer);
      this.#stop?.abort();
    } else if (performance.now() - this.answered >= this.#every) void this.refresh();
    else this.#timer = setTimeout(this.refresh, this.#every);
  };
}

// live asks as long as the component that calls it is there, anew whenever what ask reads of the
// page's state changes. An answer for which whole is false is asked for again soon.
export function live<T>(ask: () => Ask<T> | undefined, milliseconds?: number, whole?: (answer: T) => boolean): { readonly now: Live<T> | undefined } {
  let now = $state.raw<Live<T>>();
  $effect(() => {
    const question = ask();
    if (!question) {
      now = undefined;
      return;
    }
    const it = untrack(() => new Live(question, milliseconds, whole));
    now = it;
    return () => it.end();
  });
  return {
    get now() {
      return now;
    },
  };
}
