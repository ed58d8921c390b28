import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.StreamWriteBuilder;
import org.apache.paimon.types.RowKind;

/**
 * Writes epochs of changes with Paimon's own writer and prints what each took of the processor.
 *
 * <p>Arguments: the table's folder, a folder for spilled data, and one file of keys (big-endian
 * longs) an epoch. The rows are those of bench/compact/changelogs.py. One writer stays open, as in a
 * streaming job, so that its lookup keeps its local store.
 */
public final class ChangelogBench {
    public static void main(String[] arguments) throws Exception {
        Options options = new Options();
        options.set("path", arguments[0]);
        FileStoreTable table = FileStoreTableFactory.create(CatalogContext.create(options));
        StreamWriteBuilder builder = table.newStreamWriteBuilder().withCommitUser("bench");
        OperatingSystemMXBean system =
                (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        try (StreamTableWrite write = builder.newWrite();
                StreamTableCommit commit = builder.newCommit()) {
            write.withIOManager(IOManager.create(arguments[1]));
            for (int epoch = 0; epoch + 2 < arguments.length; epoch++) {
                long begun = system.getProcessCpuTime();
                Path keys = Path.of(arguments[epoch + 2]);
                RowKind kind = epoch == 0 ? RowKind.INSERT : RowKind.UPDATE_AFTER;
                long count = Files.size(keys) / Long.BYTES;
                try (DataInputStream in =
                        new DataInputStream(new BufferedInputStream(Files.newInputStream(keys)))) {
                    for (long row = 0; row < count; row++) {
                        long key = in.readLong();
                        BinaryString text = BinaryString.fromString(Long.toString(key + epoch));
                        write.write(GenericRow.ofKind(kind, key, text, text, key));
                    }
                }
                if (epoch == 0) {
                    write.compact(BinaryRow.EMPTY_ROW, 0, true);
                }
                List<CommitMessage> messages = write.prepareCommit(true, epoch);
                commit.commit(epoch, messages);
                System.out.println(system.getProcessCpuTime() - begun);
            }
        }
    }
}
