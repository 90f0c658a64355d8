/** How long records of activities are kept. Whatever passes either limit goes, oldest first. */
export interface ActivityOptions {
  /** Age since `occurredAt`, in milliseconds; 0 = no limit. */
  readonly retentionMs: number
  /** Bytes of the log at most, indexes included; 0 = no limit. */
  readonly sizeMaxBytes: number
}

/** The log, in the data directory. */
export const ACTIVITY_FILE = 'activities.sqlite'
