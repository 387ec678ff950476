// The last hour of pools, a value a minute, for the small curves in their rows. One question is under way
// at a time, and only about rows in view: first for the hour, and then for the minutes since.
import { clock } from './clock.svelte';
import { millis, percent, stamp } from './format';
import { api } from './session.svelte';

const minute = 60_000;
// A row that is scrolled past within so many milliseconds is not asked for.
const rests = 150;
export const minutes = 60;
export const height = 20;

export class Spark {
  // Paths in a box of minutes by height: usage as an area, fair share as a line.
  usage = $state.raw('');
  fair = $state.raw('');
  text = $state.raw('no figures yet');
  due = performance.now() + rests;
  #points = new Map<number, [usage: number, fair: number]>();

  constructor(private tree: string, private pool: string) {}

  async ask() {
    this.due = performance.now() + minute;
    const last = Math.max(0, ...this.#points.keys());
    try {
      // The last minute was not over when it was told.
      const answer = await api.pools.history({ tree: this.tree, pool: this.pool, stepSeconds: 60n, ...(last && { from: stamp(last * minute) }) }, { timeoutMs: 5000 });
      for (const p of answer.points) this.#points.set(millis(p.time) / minute, [p.usageShare, p.fairShare]);
      this.#draw();
    } catch {
      // The list itself says that the cluster does not answer.
    }
  }

  #draw() {
    const first = Math.floor(clock.now / minute) - minutes + 1;
    for (const at of this.#points.keys()) if (at < first) this.#points.delete(at);
    const all = [...this.#points].sort(([a], [b]) => a - b);
    const uses = all.map(([, [usage]]) => usage);
    if (!uses.length) return;
    const [least, most, top] = [Math.min(...uses), Math.max(...uses), Math.max(1e-9, ...all.flatMap(([, both]) => both))];
    const y = (share: number) => (height - 1 - (share / top) * (height - 2)).toFixed(1);
    // Minutes of which nothing is known are gaps.
    let [area, line] = ['', ''];
    all.forEach(([at, [usage, fair]], i) => {
      const [x, begins, ends] = [at - first, all[i - 1]?.[0] !== at - 1, all[i + 1]?.[0] !== at + 1];
      area += `${begins ? `M${x} ${height}` : ''}V${y(usage)}h1${ends ? `V${height}Z` : ''}`;
      line += `${begins ? 'M' : 'L'}${x} ${y(fair)}h1`;
    });
    [this.usage, this.fair] = [area, line];
    this.text = `usage in the last hour: ${percent(least)} to ${percent(most)}`;
  }
}

const known = new Map<string, Spark>();
const inView = new Set<Spark>();
let running = false;

export function sparkOf(tree: string, pool: string): Spark {
  const key = `${tree}/${pool}`;
  let it = known.get(key);
  if (!it) {
    if (known.size > 5000) known.clear();
    known.set(key, (it = new Spark(tree, pool)));
  }
  return it;
}

// watch keeps a curve fresh while its row is in view.
export function watch(it: Spark): () => void {
  inView.add(it);
  it.due = Math.max(it.due, performance.now() + rests);
  if (!running) void run();
  return () => inView.delete(it);
}

async function run() {
  running = true;
  while (inView.size) {
    const now = performance.now();
    const next = document.hidden ? undefined : [...inView].find((s) => s.due <= now);
    if (next) await next.ask();
    else await new Promise((done) => setTimeout(done, rests));
  }
  running = false;
}
