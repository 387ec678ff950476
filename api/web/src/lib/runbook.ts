// What an operator does about a problem of the cluster, and where the documentation has more. The first entry
// whose pattern a problem matches counts. A test holds patterns to the problems that replicas report, and the
// places to the pages that there are.

export interface Remedy {
  pattern: RegExp;
  text: string;
  commands: string[];
  page: string;
}

export const runbook: Remedy[] = [
  { pattern: /no leader is known|has no majority/, text: 'Start the voting replicas that are down and see that they reach each other: a majority is enough. A process that stopped says why by its exit code and in its log. If a majority has lost its folders, restore a backup.', commands: ['weir cluster members', 'weir status'], page: 'docs/running.md#members' },
  { pattern: /is down: |the minimum: /, text: 'Start weir server on its machine again; it catches up by itself. If the machine is lost, replace the replica and start it with an empty folder.', commands: ['weir cluster remove ID', 'weir cluster add ID --address HOST:7701'], page: 'docs/running.md#members' },
  { pattern: /does not answer|no contact with a leader/, text: 'See whether its process runs and whether its port can be reached from the other machines: TCP and UDP.', commands: ['weir cluster members'], page: 'docs/running.md#replicas' },
  { pattern: /log entries/, text: 'A replica that has just started catches up. Otherwise its machine, disk or network is too slow for the load: move leadership away from it and look at its disk.', commands: ['weir cluster transfer'], page: 'docs/running.md#metrics-and-health' },
  { pattern: /slow disk/, text: 'Every change waits for the log. Give --data a disk of its own, and move leadership to another replica until then.', commands: ['weir cluster transfer'], page: 'docs/running.md#replicas' },
  { pattern: /clock of /, text: 'Set the clock right and keep it so with NTP. The line disappears by itself.', commands: ['timedatectl status'], page: 'docs/running.md#clocks' },
  { pattern: /certificate/, text: 'Renew what is about to expire, daily by cron, and copy each tls.crt to the machine of its process: it is taken up within a minute.', commands: ['weir tls renew --dir certs'], page: 'docs/certificates.md#renewal' },
  { pattern: /runs? (a )?version|is not finished/, text: 'Processes of two releases work together while a cluster is upgraded, but what is new is not available. See what is left to do.', commands: ['weir cluster upgrade status', 'weir cluster upgrade plan'], page: 'docs/upgrade.md#the-sequence' },
  { pattern: /states that differ/, text: 'Back up each replica, and ask for help: nobody knows which state is right. Where one replica alone differs it stops, and is started with --rebuild.', commands: ['weir cluster members', 'weir cluster backup -f FILE'], page: 'docs/running.md#states-that-differ' },
  { pattern: /for overload/, text: 'Clients try again by themselves. See who calls most, and spread clients over all replicas.', commands: [], page: 'docs/running.md#overload' },
  { pattern: /no fair shares|job counters/, text: 'The log of the replica says more: report it. Another leader goes on meanwhile.', commands: ['weir cluster transfer'], page: 'docs/running.md#metrics-and-health' },
  { pattern: /every online node is drained/, text: 'Give nodes back. The view Nodes says who drained them and why.', commands: ['weir node undrain NODE'], page: 'docs/running.md#operating-the-cluster' },
  { pattern: /refused because/, text: 'Allow what the agents claim if it is right, or correct their flags.', commands: ['weir node list', 'weir node allow NODE'], page: 'docs/running.md#what-agents-may-claim' },
  { pattern: /offline|no node is online/, text: 'See whether weir agent runs there and reaches the replicas. Its jobs run elsewhere when its lease is over. A node that will not come back can be removed.', commands: ['weir node list --state offline', 'weir node remove NODE'], page: 'docs/running.md#agents' },
  { pattern: /running limit/, text: 'They start when others of their pool end. Raise the limit if the pool may run more at once.', commands: ['weir op list --state pending', 'weir pool set POOL max_running_operation_count=100'], page: 'docs/pools.md' },
  { pattern: /lack features/, text: 'Jobs run there with fewer guarantees. The node says what is missing; control groups and root are what most miss.', commands: ['weir node get NODE'], page: 'docs/running.md#agents' },
  { pattern: /anyone may submit/, text: 'Jobs of different people could change each other’s files. Run agents as root, or give the right use to fewer.', commands: ["weir pool acl '<Root>'"], page: 'docs/running.md#users-and-files-of-jobs' },
  { pattern: /can hold|^operation .* waits/, text: 'Its jobs ask for more than any node of its trees has, or for tags that none has. The operation says which.', commands: ['weir explain op ID'], page: 'docs/explain.md' },
];

export const remedy = (problem: string) => runbook.find((r) => r.pattern.test(problem));
