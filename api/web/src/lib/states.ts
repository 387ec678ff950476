// How states look: ends that went wrong stand out, and nothing else does.

const good = new Set(['completed', 'online']);
const bad = new Set(['failed', 'offline']);
const warn = new Set(['aborted', 'aborting', 'failing', 'drained', 'suspended']);

export function look(state: string): string {
  if (good.has(state)) return 'good';
  if (bad.has(state)) return 'bad';
  if (warn.has(state)) return 'warn';
  return '';
}

export const over = (state: string) => state === 'completed' || state === 'failed' || state === 'aborted';
