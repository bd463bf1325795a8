import { createPublishReady, type PublishReady, type PublishReadyDeps } from './publish-ready.ts';

export type ActivityDeps = PublishReadyDeps;

/** All activities of Holdfast, for the worker of the delivery task queue; their names are in histories. */
export function createActivities(deps: ActivityDeps): { publishReady: PublishReady } {
  return { publishReady: createPublishReady(deps) };
}
