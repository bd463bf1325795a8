/** Entry of the workflow bundle: every workflow type that a Holdfast worker runs. */
export { task } from './task/task.ts';
