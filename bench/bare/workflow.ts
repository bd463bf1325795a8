/**
 * The least that Temporal needs for the shape of a Task: a publish, a claim and a result by signal, verdicts by query.
 * No timers, no search attributes, no mailbox, no lineage, no limits: what the layers above cost is the distance to this.
 */
import { condition, defineQuery, defineSignal, proxyActivities, setHandler, uuid4 } from '@temporalio/workflow';
import type { BareActivities } from './activities.ts';
import { VERDICT_QUERY, type BareInput, type BareRecord, type ClaimSignal, type ResultSignal } from './words.ts';

export async function bareTask({ taskId, deliveryTaskQueue }: BareInput): Promise<BareRecord> {
  const token = uuid4();
  const record: BareRecord = { status: 'scheduled', verdicts: {} };
  const isWaiting = (): boolean => record.status === 'scheduled' || record.status === 'queued';

  setHandler(defineSignal<[ClaimSignal]>('claim'), (claim) => {
    const accepted = isWaiting() && claim.token === token;
    record.verdicts[claim.key] = accepted ? 'accepted' : 'refused';
    if (accepted) record.status = 'running';
  });
  setHandler(defineSignal<[ResultSignal]>('result'), ({ key, success }) => {
    record.verdicts[key] = 'accepted';
    record.status = success ? 'succeeded' : 'failed';
  });
  setHandler(defineQuery<BareRecord['verdicts'][string] | null, [string]>(VERDICT_QUERY), (key) => {
    return record.verdicts[key] ?? null;
  });

  const { publishReady } = proxyActivities<BareActivities>({
    taskQueue: deliveryTaskQueue,
    startToCloseTimeout: '15 seconds',
  });
  void publishReady({ taskId, deliveryEventId: token }).then(() => {
    if (record.status === 'scheduled') record.status = 'queued';
  });
  await condition(() => record.status === 'succeeded' || record.status === 'failed');
  return record;
}
