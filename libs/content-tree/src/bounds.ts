/**
 * Every bound of an account's state, with its reason. The plan's limits (contents, storage) come
 * from the settings.
 */

/**
 * An account is held in memory as a whole, about 250 bytes per content: a million, and some for the
 * folders around it.
 */
export const contentsMax = 1_048_576
/**
 * Bytes that contents, folders, blobs and links of an account take in a checkpoint. A million
 * contents with names of 20 characters take 190 MB. A checkpoint of the fullest account has some
 * 4,000 pages, which its root can name.
 */
export const metadataBytesMax = 256 * 1024 * 1024
/**
 * The part of `metadataBytesMax` that an account may use for each content of its limit: ten
 * times what a usual content takes. An account with a limit of 10,000 contents has 20 MiB.
 */
export const metadataBytesPerContent = 2 * 1024
/** The lower bound for accounts with few contents. */
export const metadataBytesMin = 1024 * 1024
/**
 * The part of an account's bytes of metadata that direct links may take: in memory links are
 * several times as large.
 */
export const directLinksShare = 1 / 16
/** Folders below the root. Walks upward are bounded by it. */
export const treeDepthMax = 128
export const directLinksPerContentMax = 100
/** Encoded; one link must fit into a checkpoint page and into an event with room to spare. */
export const directLinkBytesMax = 64 * 1024
/** A reader of deep listings returns for the rest. */
export const itemsPerAnswerMax = 10_000
/**
 * Bytes of JSON of a listing's deeper levels. Names, tags and descriptions may take 17 KB per item:
 * the bound on items alone would allow an answer of 170 MB to a request of 130 bytes. The first
 * level is a page of at most 1,000 items, 17 MB, and stays whole for clients that count pages.
 */
export const deeperBytesMax = 4 * 1024 * 1024
/**
 * Children examined for whether their folder still fits; beyond it deeper folders come without
 * children.
 */
export const deeperRowsMax = 2 * itemsPerAnswerMax
/**
 * As `deeperRowsMax`, in bytes of JSON: counting content that does not fit takes as long as
 * counting content that fits.
 */
export const deeperLooksBytesMax = 2 * deeperBytesMax
/**
 * Bytes of direct links in one answer; items beyond it come without theirs. One item alone has at
 * most 6.4 MiB of them.
 */
export const directLinkBytesPerAnswerMax = 8 * 1024 * 1024
/** Bytes of JSON of the recycle bin's answer, newest first: twice what 10,000 plain files take. */
export const binBytesMax = 16 * 1024 * 1024
export const searchPageSizeMax = 10_000
/** Passwords of folders that the link of an archive opens; the folders of others are left out. */
export const archivePasswordsMax = 16

/** Retries come within seconds; both bounds apply, whichever is reached first. */
export const outcomesMax = 1_024
export const outcomeAgeMsMax = 15 * 60_000
/** Results of ids that clients chose (Idempotency-Key). Digests of those ids stay longer. */
export const keyedOutcomesMax = 1_024
/** How long a repetition of a used key has no effect. */
export const keyedSecondsMax = 24 * 3_600
export const keyedOutcomeAgeMsMax = keyedSecondsMax * 1_000
/**
 * Keys of 24 hours whose digests are kept, 33 bytes each. One for each content of the fullest
 * account: a sync of a million files in a day passes. The request budgets alone would let an
 * account send a hundred million.
 */
export const keyDigestsMax = 1_048_576
/** Expired digests that one change drops: more than it adds, and no long work. */
export const forgottenDigestsPerChange = 16
/** Digests in one part of a checkpoint: 100 KB. */
export const keyDigestsPerPart = 4_096
/** Outcomes in one part of a checkpoint: some 40 KB. */
export const outcomesPerPart = 128
/**
 * Rows of contents, blobs or passwords in one part of a checkpoint: some 100 KB, what a change of
 * one row makes the next checkpoint write. A million contents of distinct blobs are 2,048 parts.
 */
export const rowsPerPart = 1_024
/** A state of these bytes is one part: it is written, and read, as one page. */
export const onePartBytesMax = 128 * 1024
/**
 * A table is made dense as it is loaded when it has this many times more rows than are taken, and
 * is larger than a part.
 */
export const sparseTimes = 4
/** Larger ones are made again from the state. */
export const outcomeBytesMax = 4 * 1024
/** All that is kept for one kind of id. */
export const outcomesBytesMax = 2 * 1024 * 1024
/**
 * A frontend's clock may be ahead by this much; more would push the floor over all other requests.
 */
export const requestAheadMsMax = 60_000

export const recycledSecondsMax = 30 * 86_400
/**
 * Contents of an account that timers deleted and that can be restored; more are deleted at once.
 */
export const heldContentsMax = 65_536
/** Deletions by operators can be undone for as many days as the call says. */
export const heldSecondsMax = 366 * 86_400
/** Reports of downloads reach an account within seconds; retries take minutes. */
export const idleSlackSeconds = 600
/** A look for idle files takes a millisecond for each 50,000 files. */
export const idleDueEverySeconds = 3_600
/** A download is journaled at once when the file's last noted use is older than this. */
export const usedFreshSeconds = 3_600
/** Processes that report downloads; the one silent for longest is dropped first. */
export const reportSourcesMax = 256
/** Work of one Tick; the rest is due again at once. */
export const duePerTickMax = 1_000
/**
 * Rows of deleted folders swept with one change. Part of the meaning of a change: replays must
 * agree on it.
 */
export const sweepRowsPerChangeMax = 16_384
/** Rows freed before long work yields: a few milliseconds. */
export const freedRowsPerSlice = 1_024
/**
 * Orders of listings kept in memory: a folder of a million under each sort. The least recently used
 * is dropped first.
 */
export const orderBytesMax = 24 * 1024 * 1024
/** Folders with fewer children are sorted each time. */
export const orderedFolderMin = 64
/** Rows examined before long work yields: about a millisecond. */
export const rowsPerSlice = 4_096
/**
 * UTF-16 units of names and tags folded before long work yields: a millisecond of the slowest, runs
 * of combining marks. Normalising those takes 0.4 µs a unit, and 0.01 µs for other text.
 */
export const foldedUnitsPerSlice = 2 * 1024
/** Units of ASCII that take no more time than one that is slow to fold. */
export const asciiUnitsPerFolded = 32
/**
 * UTF-16 units of names, other than ASCII, that changes of a folder may fold to keep its order by
 * name. After that the order is dropped until it is asked for again.
 */
export const orderFoldedUnitsMax = 16 * 1024
/** Items made before long work yields: about a millisecond. */
export const itemsPerSlice = 1_024
/** The same below a page, where an item has to be looked for in many folders: it takes longer. */
export const deeperItemsPerSlice = 256
/** Entries of a manifest made or encoded at once: a few milliseconds. */
export const manifestEntriesPerSlice = 1_024

/** Blobs in use in one page of a look: 64 KiB of names, well below a millisecond. */
export const usesPerLookMax = 1_024
/** Share codes whose blocks are found at once: a few milliseconds. */
export const codesPerLookMax = 1_024
