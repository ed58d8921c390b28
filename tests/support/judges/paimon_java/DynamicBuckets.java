import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.index.BucketAssigner;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.index.HashIndexFile;
import org.apache.paimon.index.IndexFileHandler;
import org.apache.paimon.index.SimpleHashBucketAssigner;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.RowPartitionKeyExtractor;

/** Buckets of rows in a table with bucket = -1 and a key, as Paimon's engines assign them. */
final class DynamicBuckets {
    private final RowPartitionKeyExtractor keys;
    private final List<BucketAssigner> assigners = new ArrayList<>();

    DynamicBuckets(FileStoreTable table, String commitUser, boolean overwrite) {
        keys = new RowPartitionKeyExtractor(table.schema());
        Integer initial = table.coreOptions().dynamicBucketInitialBuckets();
        int count = initial == null ? 1 : initial;
        long target = table.coreOptions().dynamicBucketTargetRowNum();
        int most = table.coreOptions().dynamicBucketMaxBuckets();
        for (int id = 0; id < count; id++) {
            assigners.add(
                    overwrite
                            ? new SimpleHashBucketAssigner(count, id, target, most)
                            : new HashBucketAssigner(
                                    table.snapshotManager(),
                                    commitUser,
                                    table.store().newIndexFileHandler(),
                                    count,
                                    count,
                                    id,
                                    target,
                                    most));
        }
    }

    int bucket(InternalRow row) {
        BinaryRow partition = keys.partition(row);
        int hash = keys.trimmedPrimaryKey(row).hashCode();
        int count = assigners.size();
        int id = BucketAssigner.computeAssigner(partition.hashCode(), hash, count, count);
        return assigners.get(id).assign(partition, hash);
    }

    /** The hashes of each bucket, ascending; a bucket's file must be its only one. */
    static void list(FileStoreTable table, ArrayNode answer) throws Exception {
        IndexFileHandler handler = table.store().newIndexFileHandler();
        TreeMap<String, ObjectNode> found = new TreeMap<>();
        for (IndexManifestEntry entry : handler.scan(HashIndexFile.HASH_INDEX)) {
            String partition =
                    table.store().pathFactory().getPartitionString(entry.partition());
            ObjectNode bucket = answer.objectNode();
            bucket.put("partition", partition).put("bucket", entry.bucket());
            bucket.put("row_count", entry.indexFile().rowCount());
            ArrayNode hashes = bucket.putArray("hashes");
            handler.hashIndex(entry.partition(), entry.bucket())
                    .readList(entry.indexFile())
                    .stream()
                    .sorted()
                    .forEach(hashes::add);
            if (found.put(partition + "/" + entry.bucket(), bucket) != null) {
                throw new IllegalStateException("two index files: " + bucket);
            }
        }
        found.values().forEach(answer::add);
    }
}
