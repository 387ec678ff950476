// What the end of jobs would lose, as a question about a change says it.

import type { Job } from '../gen/apipb/api_pb';
import { clock } from './clock.svelte';
import { count, duration, millis } from './format';
import { api } from './session.svelte';

// The most jobs whose times are added up.
const most = 1000;

const ends = new Set(['waiting', 'running', 'aborting']);

export const jobs = (n: number | bigint) => `${count(n)} ${Number(n) === 1 ? 'job' : 'jobs'}`;

// worked says how long jobs have run, in all and in cores, as of now.
export function worked(some: Job[]): string {
  let [ran, cores] = [0, 0];
  for (const job of some) {
    const took = job.startTime ? Math.max(0, clock.now - millis(job.startTime)) : 0;
    ran += took;
    cores += took * (job.resources?.cpu ?? 0);
  }
  return `${duration(ran)}${some.length > 1 ? ' in all' : ''}, ${duration(cores)} of cores`;
}

// running returns the jobs of an operation that would be lost, and whether there are more.
export async function running(operation: string): Promise<{ some: Job[]; more: boolean }> {
  const answer = await api.jobs.list({ operation, limit: most }, { timeoutMs: 5000 });
  const some = answer.jobs.filter((j) => ends.has(j.state));
  return { some, more: answer.total > answer.jobs.length && some.length === answer.jobs.length };
}
