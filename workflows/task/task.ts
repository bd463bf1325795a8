/**
 * The Task's workflow: wires the pure lifecycle to Temporal and decides nothing itself. Durable timers for the release,
 * redelivery and run time-out; signals for commands; queries for the Task, verdicts, the mailbox and stop checks; an
 * activity for readiness.
 *
 * It always completes with the terminal record, whatever the Task's status, so that a terminal Task is read from its
 * close event with no worker and no replay. Temporal's own Failed then means one thing: Holdfast is broken.
 */
import {
  allHandlersFinished,
  CancellationScope,
  condition,
  continueAsNew,
  defineQuery,
  defineSignal,
  log,
  setCurrentDetails,
  setDefaultSignalHandler,
  setHandler,
  upsertSearchAttributes,
  uuid4,
  workflowInfo,
} from '@temporalio/workflow';
import { COMMAND_KINDS, type CommandKind, type VerdictQuestion } from '../../src/contracts/commands.ts';
import { instantOf } from '../../src/contracts/instant.ts';
import type { TaskRecord, TaskView } from '../../src/contracts/task.ts';
import {
  QUERIES,
  type MessagesAnswer,
  type StopCheckAnswer,
  type TaskWorkflowInput,
  type VerdictsAnswer,
} from '../../src/contracts/workflow.ts';
import { AlarmClock } from './alarm-clock.ts';
import { attributesAtStart, changingAttributes } from './changing-attributes.ts';
import { Publisher } from './delivery.ts';
import {
  answerVerdict,
  decide,
  isCommandKind,
  isTerminal,
  nextAlarm,
  reconcile,
  transition,
  type Effect,
  type EventContext,
  type OwnEvent,
} from './lifecycle.ts';
import { readMessages } from './mailbox.ts';
import { parseCommand } from './parse-command.ts';
import { viewOf } from './view.ts';
import { changedPairs, detailsOf } from './visibility.ts';

export async function task(input: TaskWorkflowInput): Promise<TaskRecord> {
  const { policy } = input;
  let { record } = input;
  let signals = 0;
  let stirred = false;
  let effect = null as Effect | null;
  let shown = attributesAtStart(record);

  const publisher = new Publisher(policy, happened);
  const clock = new AlarmClock((event) => happened({ kind: event }));

  function context(): EventContext {
    return {
      at: instantOf(Date.now()),
      newDeliveryEventId: `evt_${uuid4()}`,
      publishUnderWay: publisher.underWay,
      policy,
    };
  }

  function happened(event: OwnEvent): void {
    const outcome = transition(record, event, context());
    if (!outcome.ok) {
      log.debug('event not applicable', { event: event.kind, code: outcome.code, status: record.phase.status });
      stirred = true; // a timer that rang too soon is armed again
      return;
    }
    become(outcome.record, outcome.effects);
  }

  function become(next: TaskRecord, effects: Effect[]): void {
    record = next;
    if (effects.length > 0) {
      publisher.disown();
      effect = effects.at(-1) ?? null; // a later one replaces what an earlier one asked for
    }
    stirred = true;
  }

  function receive(kind: CommandKind, payload: unknown): void {
    signals += 1;
    stirred = true;
    const command = parseCommand(kind, payload);
    if (command === null) {
      log.warn('signal refused: not a command', { kind });
      return;
    }
    const decision = decide(record, command, context());
    become(decision.record, decision.effects);
  }

  /** Makes the publish, timers and visibility follow the record; once for all that an activation brought. */
  function settle(): void {
    stirred = false;
    // What a terminal Task has under way ends with its run: cancelling it would cost events and change nothing.
    if (!isTerminal(record)) {
      if (effect?.type === 'publish') publisher.publish(record);
      else if (effect?.type === 'stop-publish') publisher.stop();
      clock.set(nextAlarm(record));
    }
    effect = null;
    const showing = changingAttributes(record);
    const pairs = changedPairs(shown, showing);
    if (pairs.length > 0) upsertSearchAttributes(pairs);
    shown = showing;
    setCurrentDetails(detailsOf(record));
  }

  // All handlers are set before the first await: signals may be in the first workflow task, or before it.
  takeEarlySignals((name, payload) => {
    if (isCommandKind(name)) receive(name, payload);
  });
  for (const kind of COMMAND_KINDS) {
    setHandler(defineSignal<[unknown]>(kind), (payload) => receive(kind, payload));
  }
  setHandler(defineQuery<TaskView>(QUERIES.task), () => viewOf(record));
  setHandler(defineQuery<StopCheckAnswer>(QUERIES.stopCheck), () => ({
    status: record.phase.status,
    ancestors: record.spec.lineage.ancestors,
  }));
  setHandler(defineQuery<MessagesAnswer, [{ after: number; limit: number }]>(QUERIES.messages), (range) =>
    readMessages(record.mailbox, range),
  );
  setHandler(defineQuery<VerdictsAnswer, [VerdictQuestion[]]>(QUERIES.verdict), (questions) => ({
    answers: questions.map((question) => answerVerdict(record, question)),
    task: viewOf(record),
  }));

  // Cancel in Temporal's own tools means cancel, and the workflow still completes with its record. `cancelRequested`
  // never resolves, it only rejects.
  CancellationScope.current().cancelRequested.catch(() => happened({ kind: 'canceled-in-temporal' }));

  return CancellationScope.nonCancellable(async () => {
    const start = reconcile(record, context());
    become(start.record, start.effects);
    for (;;) {
      settle();
      if (isTerminal(record)) return record;
      if (signals >= policy.continueAsNewAfterSignals || workflowInfo().continueAsNewSuggested) {
        await condition(allHandlersFinished);
        if (!stirred) await continueAsNew<typeof task>({ ...input, record });
        continue;
      }
      await condition(() => stirred);
    }
  });
}

/**
 * Hands over the signals that came before any handler, in the order in which they came: each handler by name would be
 * given its own ones first. Only that long is there a handler for all names, since the SDK throws on a signal with a
 * reserved name while there is one; such a signal is dropped here, and later ones, like all of unknown names, are left
 * lying.
 */
function takeEarlySignals(take: (name: string, payload: unknown) => void): void {
  let isDone = false;
  while (!isDone) {
    try {
      setDefaultSignalHandler(take);
      isDone = true;
    } catch (error) {
      // The SDK had taken the signal off its list: the next turn goes on behind it.
      log.warn('signal refused: reserved name', { error: String(error) });
    }
  }
  setDefaultSignalHandler(undefined);
}
