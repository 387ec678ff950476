// What happened to a pool: marks on its curve.

import { millis, stamp } from './format';
import { api } from './session.svelte';

export interface Mark {
  // Milliseconds since 1970.
  at: number;
  kind: 'preempted' | 'changed';
  text: string;
}

// follow answers a question that reads what has happened since a time, and later what is new. Of a log
// that is too long for one call it goes on from where the call ended, so marks come by and by.
export function follow(tree: string, pool: string, since: number) {
  const marks = new Map<string, Mark>();
  let next = 0n;
  return async (options: { signal: AbortSignal; timeoutMs: number }): Promise<Mark[]> => {
    const what = { tree, pool, kinds: ['job_preempted', 'pool_changed', 'pool_created', 'pool_renamed'] };
    try {
      for await (const part of api.events.read(next ? { ...what, index: next } : { ...what, since: stamp(since) }, options)) {
        for (const event of part.events) {
          const set = Object.entries(event.attributes).map(([path, value]) => `${path.replaceAll('/', '.')} = ${value}`).join(', ');
          const text = event.kind === 'job_preempted' ? event.message : `${event.kind.replace('pool_', '')} by ${event.user}${set && ': ' + set}`;
          marks.set(`${event.index}/${event.position}`, { at: millis(event.time), kind: event.kind === 'job_preempted' ? 'preempted' : 'changed', text });
        }
        next = part.nextIndex;
      }
    } catch (cause) {
      // Curves are of use without marks, and whether the cluster is there others find out.
      if (options.signal.aborted) throw cause;
    }
    return [...marks.values()];
  };
}
