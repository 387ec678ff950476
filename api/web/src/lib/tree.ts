// The order of rows: parents before children, children by name, whatever their shares do.

import type { Pool } from '../gen/apipb/api_pb';

export interface Row {
  pool: Pool;
  depth: number;
  children: boolean;
  open: boolean;
}

// arrange answers the rows of a tree-table. A filter keeps the pools that have it in their name and
// those above them, and opens what is folded.
export function arrange(pools: Pool[], filter: string, folded: Set<string>): Row[] {
  const below = new Map<string, Pool[]>();
  const names = new Set(pools.map((p) => p.name));
  for (const pool of pools) {
    const parent = names.has(pool.parent) ? pool.parent : '';
    const siblings = below.get(parent);
    if (siblings) siblings.push(pool);
    else below.set(parent, [pool]);
  }
  for (const siblings of below.values()) siblings.sort((a, b) => (a.name < b.name ? -1 : 1));

  const keeps = (pool: Pool): boolean => pool.name.toLowerCase().includes(filter) || (below.get(pool.name) ?? []).some(keeps);
  const rows: Row[] = [];
  const walk = (parent: string, depth: number) => {
    for (const pool of below.get(parent) ?? []) {
      if (filter && !keeps(pool)) continue;
      const open = filter !== '' || !folded.has(pool.name);
      rows.push({ pool, depth, children: below.has(pool.name), open });
      if (open) walk(pool.name, depth + 1);
    }
  };
  walk('', 0);
  return rows;
}

// nice rounds a share up to an end of a scale, so that small changes do not move it.
export function nice(share: number): number {
  return [0.01, 0.02, 0.05, 0.1, 0.25, 0.5].find((end) => share <= end) ?? 1;
}
