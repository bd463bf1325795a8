/**
 * The durable timer of a Task's one alarm. Timers follow from `nextAlarm` alone: setting the alarm that is already set
 * changes nothing, setting another cancels the timer before it.
 */
import { CancellationScope, sleep } from '@temporalio/workflow';
import { epochMsOf } from '../../src/contracts/instant.ts';
import type { Alarm } from './lifecycle.ts';

const SUMMARY = {
  released: 'scheduled release',
  'redelivery-due': 'redelivery when still unclaimed',
  'run-timer': 'end of the run window',
} as const satisfies Record<Alarm['event'], string>;

export class AlarmClock {
  readonly #ring: (event: Alarm['event']) => void;
  #set: { alarm: Alarm; scope: CancellationScope } | null = null;

  constructor(ring: (event: Alarm['event']) => void) {
    this.#ring = ring;
  }

  /** Arms the timer for this alarm, or none. An alarm that is due already rings by a timer of the shortest length. */
  set(alarm: Alarm | null): void {
    const before = this.#set;
    if (before !== null && alarm !== null && before.alarm.at === alarm.at && before.alarm.event === alarm.event) return;
    this.#set = null;
    before?.scope.cancel();
    if (alarm === null) return;
    const scope = new CancellationScope();
    const set = { alarm, scope };
    this.#set = set;
    scope
      .run(() => sleep(Math.max(1, epochMsOf(alarm.at) - Date.now()), { summary: SUMMARY[alarm.event] }))
      .then(
        () => {
          if (this.#set !== set) return;
          this.#set = null;
          this.#ring(alarm.event);
        },
        () => {
          // Cancelled: replaced by another alarm.
        },
      );
  }
}
