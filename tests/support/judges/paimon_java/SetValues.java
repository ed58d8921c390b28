import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.paimon.shade.org.apache.datasketches.hll.HllSketch;
import org.apache.paimon.shade.org.apache.datasketches.memory.Memory;
import org.apache.paimon.shade.org.apache.datasketches.theta.Sketch;
import org.apache.paimon.shade.org.apache.datasketches.theta.Sketches;
import org.apache.paimon.shade.org.roaringbitmap.longlong.Roaring64Bitmap;
import org.apache.paimon.utils.HllSketchUtil;
import org.apache.paimon.utils.RoaringBitmap32;
import org.apache.paimon.utils.RoaringBitmap64;
import org.apache.paimon.utils.ThetaSketch;

/** Values of the functions rbm32, rbm64, hll_sketch and theta_sketch. */
final class SetValues {
    private SetValues() {}

    /** The value that Paimon makes of some numbers. */
    static byte[] of(String function, long[] numbers) throws IOException {
        int[] small = new int[numbers.length];
        for (int place = 0; place < numbers.length; place++) {
            small[place] = (int) numbers[place];
        }
        switch (function) {
            case "rbm32":
                return RoaringBitmap32.bitmapOf(small).serialize();
            case "rbm64":
                return RoaringBitmap64.bitmapOf(numbers).serialize();
            case "hll_sketch":
                return HllSketchUtil.sketchOf(small);
            case "theta_sketch":
                return ThetaSketch.sketchOf(small);
            default:
                throw new IllegalArgumentException("no function of sets: " + function);
        }
    }

    /** What a value holds: how many numbers and their hash, or how many it estimates. */
    static String described(String function, byte[] value) throws IOException {
        switch (function) {
            case "rbm32":
                RoaringBitmap32 bitmap = new RoaringBitmap32();
                bitmap.deserialize(ByteBuffer.wrap(value));
                return bitmap.getCardinality() + " " + bitmap.toString().hashCode();
            case "rbm64":
                Roaring64Bitmap longs = new Roaring64Bitmap();
                longs.deserialize(new DataInputStream(new ByteArrayInputStream(value)));
                long[] numbers = longs.toArray();
                return numbers.length + " " + Arrays.hashCode(numbers);
            case "hll_sketch":
                HllSketch hll = HllSketch.heapify(value);
                return String.format(
                        "%d %s %.9g", hll.getLgConfigK(), hll.getTgtHllType(), hll.getEstimate());
            case "theta_sketch":
                Sketch theta = Sketches.wrapSketch(Memory.wrap(value));
                return theta.isOrdered() + " " + theta.getThetaLong() + " " + theta.getEstimate();
            default:
                throw new IllegalArgumentException("no function of sets: " + function);
        }
    }
}
