import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.Snapshot;
import org.apache.paimon.deletionvectors.Bitmap64DeletionVector;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.append.BaseAppendDeleteFileMaintainer;
import org.apache.paimon.index.IndexFileHandler;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;

/**
 * Deletes rows of an append table by their place in their data file, as Paimon's own DELETE does
 * once it knows the places.
 */
final class RowDeletion {
    private final FileStoreTable table;
    private final IndexFileHandler handler;
    private final Snapshot latest;

    private RowDeletion(FileStoreTable table) {
        this.table = table;
        this.handler = table.store().newIndexFileHandler();
        this.latest = table.snapshotManager().latestSnapshot();
    }

    /** One commit; "deleted" maps names of data files to the places of rows. */
    static void commit(FileStoreTable table, JsonNode deleted) throws Exception {
        RowDeletion deletion = new RowDeletion(table);
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.commit(deletion.messages(deleted));
        }
    }

    private List<CommitMessage> messages(JsonNode deleted) {
        Map<List<Object>, BaseAppendDeleteFileMaintainer> buckets = new LinkedHashMap<>();
        int found = 0;
        for (ManifestEntry entry : table.store().newScan().plan().files()) {
            JsonNode rows = deleted.get(entry.fileName());
            if (rows != null) {
                found++;
                buckets.computeIfAbsent(
                                List.of(entry.partition(), entry.bucket()), id -> maintainer(entry))
                        .notifyNewDeletionVector(entry.fileName(), vector(rows));
            }
        }
        if (found != deleted.size()) {
            throw new IllegalArgumentException("no live data file for some of " + deleted);
        }
        List<CommitMessage> messages = new ArrayList<>();
        buckets.values().forEach(maintainer -> messages.add(message(maintainer)));
        return messages;
    }

    private BaseAppendDeleteFileMaintainer maintainer(ManifestEntry entry) {
        return table.bucketMode() == BucketMode.BUCKET_UNAWARE
                ? BaseAppendDeleteFileMaintainer.forUnawareAppend(
                        handler, latest, entry.partition())
                : BaseAppendDeleteFileMaintainer.forBucketedAppend(
                        handler, latest, entry.partition(), entry.bucket());
    }

    private DeletionVector vector(JsonNode rows) {
        DeletionVector vector =
                table.coreOptions().deletionVectorBitmap64()
                        ? new Bitmap64DeletionVector()
                        : new BitmapDeletionVector();
        for (Iterator<JsonNode> row = rows.elements(); row.hasNext(); ) {
            vector.delete(row.next().asLong());
        }
        return vector;
    }

    private CommitMessage message(BaseAppendDeleteFileMaintainer maintainer) {
        List<IndexFileMeta> added = new ArrayList<>();
        List<IndexFileMeta> deleted = new ArrayList<>();
        for (IndexManifestEntry entry : maintainer.persist()) {
            (entry.kind() == FileKind.ADD ? added : deleted).add(entry.indexFile());
        }
        return new CommitMessageImpl(
                maintainer.getPartition(),
                maintainer.getBucket(),
                table.coreOptions().bucket(),
                new DataIncrement(
                        Collections.emptyList(),
                        Collections.emptyList(),
                        Collections.emptyList(),
                        added,
                        deleted),
                CompactIncrement.emptyIncrement());
    }
}
