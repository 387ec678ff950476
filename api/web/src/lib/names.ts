// What operations are called, for views that are told ids alone.

import type { MessageInitShape } from '@bufbuild/protobuf';
import type { OperationName } from '../gen/apipb/api_pb';
import type { ExplainRequestSchema } from '../gen/apipb/explain_pb';
import { api } from './session.svelte';

type Options = { signal: AbortSignal; timeoutMs: number };

// The most that are remembered, and that one question may be about.
const most = 10_000;
const together = 1000;
const known = new Map<string, OperationName | undefined>();
// The ids that replicas make.
const id = /\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b/g;

// learn asks what operations are called, unless that is known. Ids will do if the cluster does not say.
export async function learn(ids: string[], options: Options) {
  if (known.size > most) known.clear();
  const asked = [...new Set(ids)].filter((id) => !known.has(id)).slice(0, together);
  if (!asked.length) return;
  try {
    const { operations } = await api.operations.names({ ids: asked }, options);
    for (const id of asked) known.set(id, operations.find((o) => o.id === id));
  } catch (cause) {
    if (options.signal.aborted) throw cause;
  }
}

const name = (id: string) => known.get(id)?.title || known.get(id)?.alias;
export const userOf = (id: string) => known.get(id)?.user ?? '';
// called answers what people call an operation: the end of its id if it has no name, or none that one may read.
export const called = (id: string) => name(id) || id.slice(-8);

export const idsIn = (text: string): string[] => text.match(id) ?? [];
// named shortens the ids in a text, and says of operations what they are called.
export const named = (text: string) => text.replace(id, (id) => id.slice(-8) + (name(id) ? ` “${name(id)}”` : '') + (userOf(id) && ` of ${userOf(id)}`));

// explain asks why something is as it is. In its texts operations are called by name.
export async function explain(question: MessageInitShape<typeof ExplainRequestSchema>, options: Options) {
  const answer = await api.explain.explain(question, options);
  const texts = answer.explanations.flatMap((e) => [e, ...e.facts, ...e.waits]);
  const victims = answer.explanations.flatMap((e) => e.likelyVictims.map((v) => v.operation));
  await learn([...victims, ...texts.flatMap(({ text }) => idsIn(text))], options);
  for (const it of texts) it.text = named(it.text);
  return answer;
}
