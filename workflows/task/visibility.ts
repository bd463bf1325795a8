/** What operators see of a Task in Temporal's Web UI and lists: search attributes and the current details. */
import { SearchAttributeType, type SearchAttributePair } from '@temporalio/common';
import type { TaskRecord } from '../../src/contracts/task.ts';
import { nextAlarm } from './lifecycle.ts';
import type { ChangingAttributes } from './changing-attributes.ts';

/** Pairs for Temporal of those that differ from what was set last. */
export function changedPairs(before: ChangingAttributes, after: ChangingAttributes): SearchAttributePair[] {
  const pairs: SearchAttributePair[] = [];
  if (before.status !== after.status) pairs.push(keyword('TaskStatus', after.status));
  if (before.delivery !== after.delivery) pairs.push(keyword('TaskDelivery', after.delivery));
  return pairs;
}

function keyword(name: 'TaskStatus' | 'TaskDelivery', value: string): SearchAttributePair {
  return { key: { name, type: SearchAttributeType.KEYWORD }, value };
}

/** The Web UI's current details: a small Markdown table. Ids have a safe form; free text is left out. */
export function detailsOf(record: TaskRecord): string {
  const { phase, delivery, mailbox, revision, spec } = record;
  const alarm = nextAlarm(record);
  const rows: [string, string][] = [
    ['Status', `**${phase.status}** (revision ${revision})`],
    ['Release', spec.releaseAt],
    ['Delivery', `${delivery.state}, ${delivery.attempts} attempts, round ${delivery.round}`],
    ['Delivery event', delivery.eventId ?? 'none yet'],
    ['Next alarm', alarm === null ? 'none' : `${alarm.event} at ${alarm.at}`],
    ['Mailbox', `${mailbox.messages.length} unread of ${mailbox.lastSeq}`],
  ];
  if ('claim' in phase && phase.claim !== null) rows.push(['Claimed', phase.claim.claimedAt]);
  if (spec.lineage.parentTaskId !== null) rows.push(['Parent', spec.lineage.parentTaskId]);
  return ['| | |', '|---|---|', ...rows.map(([name, value]) => `| ${name} | ${value} |`)].join('\n');
}
