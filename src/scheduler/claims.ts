/**
 * What can be said of a Task, in layers (specification: "Terminal reporting closes the lifecycle, not the proof"). Pure.
 * Proven is what the record itself shows, with where it shows it. Reported is what an executor said, unverified. The
 * rest is not claimed: no status is ever read as evidence for it.
 */
import type { ClaimName } from '../contracts/claims.ts';
import type { ReportedEffect } from '../contracts/reported-effect.ts';
import type { TaskView, Transition, TransitionCause } from '../contracts/task.ts';

export type LayeredClaim = { claim: ClaimName } & (
  | { level: 'proven'; evidence: Record<string, unknown> }
  | { level: 'reported'; evidence: { effects: ReportedEffect[] }; toProve: string }
  | { level: 'not-claimed'; toProve: string }
);

/** Claims about the world outside: which kinds of reported effects speak of them, and what would prove them. */
const OUTSIDE = {
  'revision-exists': { kinds: ['commit', 'revision', 'branch'], toProve: 'full commit SHA and provider read-back' },
  'pull-request-has-patch': {
    kinds: ['pull-request', 'merge-request'],
    toProve: 'pull request URL, head revision, diff review and provider read-back',
  },
  'tests-passed': {
    kinds: ['test', 'tests', 'ci', 'command'],
    toProve: 'exact command, revision, environment and observed result',
  },
  // Nothing that an executor reports speaks for this one.
  'issue-resolved': { kinds: [], toProve: 'domain-specific validation beyond scheduler status' },
} as const satisfies Partial<Record<ClaimName, { kinds: readonly string[]; toProve: string }>>;

/** The claims about a Task as it stands. `workflow` says where in Temporal the proof can be read. */
export function claimsOf(task: TaskView, workflow: { workflowId: string; runId: string }): LayeredClaim[] {
  const { delivery, claim, result } = task;
  const effects = result?.effects ?? [];
  const entry = (cause: TransitionCause): Transition | undefined =>
    task.transitions.find((each) => each.cause === cause);
  const proven = (name: ClaimName, at: Transition, more: Record<string, unknown> = {}): LayeredClaim => ({
    claim: name,
    level: 'proven',
    evidence: { ...workflow, revision: at.revision, at: at.at, ...more },
  });
  const unproven = (name: ClaimName, toProve: string): LayeredClaim => ({ claim: name, level: 'not-claimed', toProve });

  const created = entry('created');
  const published = entry('published');
  const claimed = entry('claim-accepted');
  const ended = entry('result-accepted');
  return [
    created === undefined
      ? unproven('request-accepted', 'durable Task id and initial status')
      : proven('request-accepted', created, { taskId: task.taskId, status: created.to }),
    // A claim that came before its publish was recorded shows that readiness had arrived.
    (published ?? claimed) === undefined
      ? unproven('made-available', 'ready delivery and current scheduler state')
      : proven('made-available', (published ?? claimed) as Transition, { deliveryEventId: delivery.eventId }),
    claimed === undefined
      ? unproven('claim-accepted', 'running status tied to the matching delivery event')
      : proven('claim-accepted', claimed, { deliveryEventId: claim?.deliveryEventId, executorId: claim?.executorId }),
    ended === undefined || result?.success !== true
      ? unproven('success-reported', 'a successful terminal result')
      : proven('success-reported', ended, { summary: result.summary }),
    ...(Object.keys(OUTSIDE) as (keyof typeof OUTSIDE)[]).map((name): LayeredClaim => {
      const { kinds, toProve } = OUTSIDE[name];
      const speaking = effects.filter(({ kind }) => (kinds as readonly string[]).includes(kind));
      if (speaking.length === 0) return unproven(name, toProve);
      return { claim: name, level: 'reported', evidence: { effects: speaking }, toProve };
    }),
  ];
}
