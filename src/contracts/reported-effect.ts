/** A durable effect that an executor reports (a commit, a pull request, a document): reported, not verified. */
export interface ReportedEffect {
  kind: string;
  ref: string;
  note?: string | undefined;
}
