// A list of operations in groups: by pool, user or title, each group below a row that names it.

import type { Operation } from '../gen/apipb/api_pb';

export const groupings = ['pool', 'user', 'title'] as const;
type Grouping = (typeof groupings)[number];

// Group is the row above the operations that have its name as their pool, user or title.
export interface Group {
  group: string;
  count: number;
}

export const isGroup = (row: Operation | Group): row is Group => 'group' in row;

// grouped answers the rows of a list: groups by name, so that they stay where they are, and in each operations in
// their order, unless it is closed. What is no grouping leaves the list as it is.
export function grouped(operations: Operation[], by: string, closed: Set<string>): (Operation | Group)[] {
  if (!groupings.includes(by as Grouping)) return operations;
  const groups = new Map<string, Operation[]>();
  for (const o of operations) {
    const name = o[by as Grouping];
    const group = groups.get(name);
    if (group) group.push(o);
    else groups.set(name, [o]);
  }
  const names = [...groups.keys()].sort();
  return names.flatMap((group) => {
    const all = groups.get(group)!;
    return [{ group, count: all.length }, ...(closed.has(group) ? [] : all)];
  });
}
