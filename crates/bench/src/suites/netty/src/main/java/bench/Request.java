package bench;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;
import java.nio.charset.StandardCharsets;

/** What a client asks for: a frame of its length (4 bytes), its type (1), the chunk (4), the path. */
record Request(byte type, int chunk, String path) {
    /** The whole file in one frame: its length (8 bytes), then its content. */
    static final byte FRAME = 1;
    /**
     * Frames of at most `chunk` bytes of content. Each has its length (4 bytes), the start of the chunk (8), endOfFile
     * (1), the length of the path (2), the path, and the content. The last one is empty and has endOfFile set.
     */
    static final byte CHUNKS = 2;

    ByteBuf encode(ByteBufAllocator allocator) {
        byte[] name = path.getBytes(StandardCharsets.UTF_8);
        return allocator.buffer().writeInt(5 + name.length).writeByte(type).writeInt(chunk).writeBytes(name);
    }

    static Request decode(ByteBuf frame) {
        return new Request(frame.readByte(), frame.readInt(), frame.toString(StandardCharsets.UTF_8));
    }
}
