import org.apache.paimon.crosspartition.GlobalIndexAssigner;
import org.apache.paimon.crosspartition.IndexBootstrap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.TableWrite;

/**
 * Gives rows to a writer. Where the key lacks partition columns, Paimon's own assigner finds the
 * partition and bucket first, with an index of what the table holds, as its sinks for Flink and
 * Spark do.
 */
final class CrossPartitionRows implements AutoCloseable {
    private final TableWrite write;
    private final GlobalIndexAssigner assigner;

    CrossPartitionRows(FileStoreTable table, TableWrite write, IOManager disk) throws Exception {
        this.write = write;
        if (table.bucketMode() != BucketMode.KEY_DYNAMIC) {
            this.assigner = null;
            return;
        }
        this.assigner = new GlobalIndexAssigner(table);
        assigner.open(0, disk, 1, 0, this::writeInto);
        new IndexBootstrap(table).bootstrap(1, 0, this::known);
        assigner.endBoostrap(false);
    }

    void write(GenericRow row) throws Exception {
        if (assigner == null) {
            write.write(row);
        } else {
            assigner.processInput(row);
        }
    }

    private void known(InternalRow key) {
        try {
            assigner.bootstrapKey(key);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private void writeInto(InternalRow row, int bucket) {
        try {
            write.write(row, bucket);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void close() throws Exception {
        if (assigner != null) {
            assigner.close();
        }
    }
}
