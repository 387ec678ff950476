// What replicas say of the cluster, together: each knows its own log, disk, clock and certificate alone.

import { ConnectError } from '@connectrpc/connect';
import type { HeldCredentials, Member, StatusResponse } from '../gen/apipb/api_pb';
import { api } from './session.svelte';

export interface Replica {
  member: Member;
  status?: StatusResponse;
  // Why it has not answered.
  silent: string;
}

export interface Seen {
  // What the replica says that knows most.
  best: StatusResponse;
  replicas: Replica[];
  problems: string[];
  // By role and name, and how many agents more there are.
  credentials: HeldCredentials[];
  leftOut: number;
}

// A replica that many entries are committed ahead of is behind, as `weir status` has it.
const lag = 5000n;
// How many agents are told of.
const question = { agents: 20 };
// How long one replica may take, in milliseconds.
const patience = 3000;

// at has a gateway ask one replica.
export const at = (replica: string) => ({ 'Weir-Replica': replica });

export const acts = (s: StatusResponse) => s.quorum && s.leader !== '';

export async function look(o: { signal: AbortSignal; timeoutMs: number }): Promise<Seen> {
  const { members } = await api.cluster.members({}, o);
  const replicas = await Promise.all(
    members.map(async (member): Promise<Replica> => {
      if (!member.alive) return { member, silent: 'down' };
      try {
        return { member, status: await api.cluster.status(question, { ...o, timeoutMs: patience, headers: at(member.id) }), silent: '' };
      } catch (cause) {
        if (o.signal.aborted) throw cause;
        return { member, silent: ConnectError.from(cause).rawMessage };
      }
    }),
  );
  const answers = replicas.flatMap((r) => r.status ?? []).sort((a, b) => Number(acts(b)) - Number(acts(a)) || Number(b.term - a.term) || Number(b.appliedIndex - a.appliedIndex));
  // Nobody can be asked by name: whoever answers says what there is to say, or that nobody does.
  const best = answers[0] ?? (await api.cluster.status(question, o));
  const problems = new Set(best.problems);
  const credentials = new Map<string, HeldCredentials>();
  for (const s of answers.length ? answers : [best]) {
    for (const c of s.credentials) if (!credentials.has(`${c.role} ${c.name}`)) credentials.set(`${c.role} ${c.name}`, c);
    for (const p of s.problems) if (p.startsWith(`replica ${s.replica} `) || p.startsWith(`clock of ${s.replica} `)) problems.add(p);
    if (best.appliedIndex - s.appliedIndex > lag) problems.add(`replica ${s.replica} is ${best.appliedIndex - s.appliedIndex} log entries behind ${best.replica}: it is catching up, or its disk or network is too slow`);
  }
  for (const r of replicas) if (r.silent && r.member.alive) problems.add(`replica ${r.member.id} at ${r.member.address} does not answer: ${r.silent}`);
  const leftOut = answers.reduce((sum, s) => sum + s.agentsLeftOut, 0);
  return { best, replicas, problems: [...problems], leftOut, credentials: [...credentials.values()].sort((a, b) => (`${b.role} ${b.name}` < `${a.role} ${a.name}` ? -1 : 1)) };
}
